import { countDrones, type Store, type StoreObserver } from '@leasehold/keys-core/store';
import { createRegistry, type Registry } from '@leasehold/service-kit';
import { Counter, Gauge, Histogram } from 'prom-client';

const MS_BUCKETS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
const WAIT_MS_BUCKETS = [10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000];
const SIZE_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/** The metrics of one controller, and the observer that feeds them. */
export function createMetrics(): { registry: Registry; observer: StoreObserver } {
  const registry = createRegistry();
  return { registry, observer: observerOf(instruments(registry)) };
}

type Instruments = ReturnType<typeof instruments>;

/** Everything that is counted as it happens, by the name of what feeds it. */
function instruments(registry: Registry) {
  const counter = <Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
  ): Counter<Label> =>
    new Counter({ name: `leasehold_${name}`, help, labelNames, registers: [registry] });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    shape: { labelNames: Label[]; buckets: number[] },
  ): Histogram<Label> =>
    new Histogram({ name: `leasehold_${name}`, help, ...shape, registers: [registry] });

  return {
    grants: counter(
      'grants_total',
      'Grants asked for, by outcome and by what the resource was before.',
      ['face', 'outcome', 'status'],
    ),
    renewals: counter('renewals_total', 'Renewals, by outcome.', ['face', 'outcome']),
    releases: counter('releases_total', 'Releases, by outcome.', ['face', 'outcome']),
    expiries: counter('expiries_total', 'Grants that the reaper ended.', ['face']),
    clockJumps: counter('clock_jumps_total', "Jumps of the database's clock.", []),
    overstays: counter(
      'backend_overstays_total',
      'Backends that outlived their key: each is a defect.',
      [],
    ),
    reaperLag: histogram('reaper_lag_ms', 'From an expiry to the moment it was written down.', {
      labelNames: ['face'],
      buckets: WAIT_MS_BUCKETS,
    }),
    waits: histogram('wait_ms', 'How long callers waited for a resource.', {
      labelNames: ['face', 'outcome'],
      buckets: WAIT_MS_BUCKETS,
    }),
    statements: histogram('statement_ms', 'How long statements took.', {
      labelNames: ['kind'],
      buckets: MS_BUCKETS,
    }),
    batches: histogram('batch_size', 'How many calls a statement carried.', {
      labelNames: ['kind'],
      buckets: SIZE_BUCKETS,
    }),
  };
}

function observerOf(to: Instruments): StoreObserver {
  return {
    batch: (kind, size) => {
      to.batches.observe({ kind }, size);
    },
    statement: (kind, durationMs) => {
      to.statements.observe({ kind }, durationMs);
    },
    grant: (face, outcome, status) => {
      to.grants.inc({ face, outcome, status });
    },
    renewal: (face, outcome, count) => {
      to.renewals.inc({ face, outcome }, count);
    },
    release: (face, outcome) => {
      to.releases.inc({ face, outcome });
    },
    waited: (face, durationMs, outcome) => {
      to.waits.observe({ face, outcome }, durationMs);
    },
    reaped: (face, lagMs) => {
      to.expiries.inc({ face });
      to.reaperLag.observe({ face }, lagMs);
    },
    clockJump: () => {
      to.clockJumps.inc();
    },
    overstay: () => {
      to.overstays.inc();
    },
  };
}

/** What is counted when it is asked for. */
export function addGauges(
  registry: Registry,
  read: {
    store: Store;
    heartbeatMs: number;
    sessionCount: () => number;
    connectionCount: () => number;
  },
): void {
  new Gauge({
    name: 'leasehold_drones',
    help: 'Drones, by status.',
    labelNames: ['status'],
    registers: [registry],
    async collect() {
      const counts = await countDrones(read.store.prisma, read.heartbeatMs);
      for (const [status, count] of Object.entries(counts)) this.set({ status }, count);
    },
  });
  new Gauge({
    name: 'leasehold_drone_sessions',
    help: 'Sessions that this controller carries.',
    registers: [registry],
    collect() {
      this.set(read.sessionCount());
    },
  });
  new Gauge({
    name: 'leasehold_connections',
    help: 'Long-lived connections to this controller.',
    registers: [registry],
    collect() {
      this.set(read.connectionCount());
    },
  });
}
