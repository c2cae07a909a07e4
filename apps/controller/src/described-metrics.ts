import { Counter, Histogram } from 'prom-client';
import { addHoldOffGauge, countHoldOffs } from './database/hold-off-metrics.ts';
import { addFairUseGauges, countRefusals } from './fair-use/fair-use-metrics.ts';
import { addGauges, createMetrics, type GaugeSources } from './metrics.ts';
import { addPeerGauges, createPeerMetrics } from './peers/peer-metrics.ts';

/** A metric as it is documented. */
export interface DescribedMetric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
}

/** Every metric of Leasehold that a controller exports, by name. Needs no database: nothing is read. */
export function describedMetrics(): DescribedMetric[] {
  const { registry } = createMetrics();
  addGauges(registry, NOTHING);
  countHoldOffs(registry);
  addHoldOffGauge(registry, never);
  countRefusals(registry);
  addFairUseGauges(registry, { greatestUseOf: never, waitingReads: never });
  createPeerMetrics(registry);
  addPeerGauges(registry, { peers: [], isReachable: never, isStoreReachable: never });
  return registry
    .getMetricsAsArray()
    .filter(({ name }) => name.startsWith('leasehold_'))
    .map((metric) => ({
      name: metric.name,
      type: typeOf(metric),
      help: metric.help,
      labels: 'labelNames' in metric ? (metric.labelNames as readonly string[]) : [],
    }))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Gauges are read when metrics are requested, which nobody does here. */
function never(): never {
  throw new Error('Nothing reads the metrics that are only described.');
}

const NOTHING: GaugeSources = {
  waiters: never,
  drones: never,
  failingCallbacks: never,
  crashLoops: never,
  sessionCount: never,
  connectionCount: never,
  leaseSessionCount: never,
  events: { lag: never, readerCount: 0 },
  behindMs: never,
};

function typeOf(metric: object): DescribedMetric['type'] {
  if (metric instanceof Counter) return 'counter';
  return metric instanceof Histogram ? 'histogram' : 'gauge';
}
