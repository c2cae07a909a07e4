import { FACES, FAIR_USE_LIMITS, type FairUseLimit } from '@leasehold/keys-core';
import type { EventStream } from '@leasehold/keys-core/events';
import type { StoreObserver } from '@leasehold/keys-core/postgres';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { CallOutcome } from './peers/peer-client.ts';

const MS_BUCKETS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
const WAIT_MS_BUCKETS = [
  1, 2, 5, 10, 20, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000,
];
const HELD_MS_BUCKETS = [
  10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 7_200_000, 86_400_000,
];
const SIZE_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/**
 * The actions of environments are chosen by callers: if there are more than this, the rest is counted
 * together, so that nobody can make a controller keep a series for each of a million.
 */
const ACTION_LABELS_MAX = 50;
const OTHER_ACTION = 'other';

/** The metrics of one controller, and what feeds them. */
export interface ControllerMetrics {
  readonly registry: Registry;
  readonly observer: StoreObserver;
  /** A refused environment, and how long the refusal took: keel's `lease.env.duration`. */
  environmentDenied(action: string, durationMs: number): void;
  /** A refused connect or acquire, with the code of its error, or `held`. */
  refused(face: string, code: string): void;
  /** A message to the webhook. */
  webhook(outcome: string): void;
}

export function createMetrics(): ControllerMetrics {
  // One of its own, so that two controllers in one process (as in tests) do not collide.
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const to = instruments(registry);
  const actionLabel = boundedLabel(ACTION_LABELS_MAX, OTHER_ACTION);
  return {
    registry,
    observer: observerOf(to, actionLabel),
    environmentDenied(action, durationMs) {
      to.environmentLease.observe({ action: actionLabel(action), outcome: 'denied' }, durationMs);
    },
    refused: (face, code) => to.refusals.inc({ face, code }),
    webhook: (outcome) => to.webhook.inc({ outcome }),
  };
}

/** The first values stay what they are, all later ones become `other`. */
export function boundedLabel(valuesMax: number, other: string): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (!known.has(value) && known.size >= valuesMax) return other;
    known.add(value);
    return value;
  };
}

type Instruments = ReturnType<typeof instruments>;

/** Everything that is counted as it happens, by name. */
function instruments(registry: Registry) {
  const { counter, histogram } = instrumentsOf(registry);
  return {
    grants: counter(
      'grants_total',
      'Grants asked for, by outcome and by what the resource was before.',
      ['face', 'outcome', 'status'],
    ),
    webhook: counter('webhook_messages_total', 'Messages to the webhook, by outcome.', ['outcome']),
    refusals: counter('refusals_total', 'Refused connects and acquires, by why.', ['face', 'code']),
    environmentGrants: counter(
      'environment_grants_total',
      'Grants of environments asked for, by outcome, by what the environment was before, and by action.',
      ['outcome', 'status', 'action'],
    ),
    environmentLease: histogram(
      'environment_lease_ms',
      'How long environments were held until their release (granted), or how long a refusal took (denied).',
      { labelNames: ['action', 'outcome'], buckets: HELD_MS_BUCKETS },
    ),
    held: histogram('held_ms', 'How long grants were held until their release.', {
      labelNames: ['face'],
      buckets: HELD_MS_BUCKETS,
    }),
    renewals: counter('renewals_total', 'Renewals, by outcome.', ['face', 'outcome']),
    releases: counter('releases_total', 'Releases, by outcome.', ['face', 'outcome']),
    expiries: counter('expiries_total', 'Grants that the reaper ended.', ['face']),
    clockJumps: counter('clock_jumps_total', "Jumps of the database's clock.", []),
    backendFailures: counter(
      'backend_failures_total',
      'Backends whose program crashed, could not be started or was not ready in time, by why they ended.',
      ['reason'],
    ),
    idleStops: counter(
      'backend_idle_stops_total',
      'Backends that were stopped because nobody used them for their idle time.',
      [],
    ),
    overstays: counter(
      'backend_overstays_total',
      'Backends that outlived their key: each is a defect.',
      [],
    ),
    reaperLag: histogram('reaper_lag_ms', 'Time from an expiry to its record.', {
      labelNames: ['face'],
      buckets: WAIT_MS_BUCKETS,
    }),
    waits: histogram('wait_ms', 'How long callers waited for a resource.', {
      labelNames: ['face', 'outcome'],
      buckets: WAIT_MS_BUCKETS,
    }),
    superseded: counter('superseded_total', 'Requests that gave way to newer ones.', ['was']),
    handovers: histogram(
      'handover_ms',
      'Time from the end of a grant to the next one, if that caller had waited.',
      { labelNames: ['face'], buckets: WAIT_MS_BUCKETS },
    ),
    statements: histogram('statement_ms', 'How long statements took.', {
      labelNames: ['kind'],
      buckets: MS_BUCKETS,
    }),
    batches: histogram('batch_size', 'Calls per statement.', {
      labelNames: ['kind'],
      buckets: SIZE_BUCKETS,
    }),
  };
}

function observerOf(to: Instruments, actionLabel: (action: string) => string): StoreObserver {
  return {
    batch: (kind, size) => to.batches.observe({ kind }, size),
    statement: (kind, durationMs) => to.statements.observe({ kind }, durationMs),
    grant: (face, outcome, status, action) => {
      to.grants.inc({ face, outcome, status });
      if (action === undefined) return;
      to.environmentGrants.inc({ outcome, status, action: actionLabel(action) });
    },
    held: (face, heldMs, action) => {
      to.held.observe({ face }, heldMs);
      if (action === undefined) return;
      to.environmentLease.observe({ action: actionLabel(action), outcome: 'granted' }, heldMs);
    },
    renewal: (face, outcome, count) => to.renewals.inc({ face, outcome }, count),
    // Counted as renewals.
    renewalsRefused: () => undefined,
    release: (face, outcome) => to.releases.inc({ face, outcome }),
    waited: (face, durationMs, outcome) => to.waits.observe({ face, outcome }, durationMs),
    superseded: (was, count) => to.superseded.inc({ was }, count),
    handedOver: (face, durationMs) => to.handovers.observe({ face }, durationMs),
    // It still counts as a denied grant, as Plane counts it.
    joined: () => undefined,
    reaped: (face, lagMs) => {
      to.expiries.inc({ face });
      to.reaperLag.observe({ face }, lagMs);
    },
    // Services run them, not controllers: see `reap_callbacks_failing`.
    reapCallback: () => undefined,
    clockJump: () => to.clockJumps.inc(),
    backendFailed: (reason) => to.backendFailures.inc({ reason }),
    idleStopped: (count) => to.idleStops.inc(count),
    overstay: () => to.overstays.inc(),
  };
}

/** Where the gauges read. */
interface GaugeSources {
  /** Drones, by status. */
  readonly drones: () => Promise<Readonly<Record<string, number>>>;
  /** Callers that wait, by face. */
  readonly waiters: () => Promise<Readonly<Record<string, number>>>;
  /** The share of the permits of all keys together that is in use, by namespace. */
  readonly permitShares: () => Promise<Readonly<Record<string, number>>>;
  readonly failingCallbacks: () => Promise<number>;
  /** Keys whose backends fail one after another. */
  readonly crashLoops: () => Promise<number>;
  readonly sessionCount: () => number;
  readonly connectionCount: () => number;
  readonly leaseSessionCount: () => number;
  readonly events: Pick<EventStream, 'lag' | 'readerCount'>;
  /** For how long each job has not caught up, in milliseconds, by its name. */
  readonly behindMs: () => Readonly<Record<string, number>>;
}

/** Gauges that are read when the metrics are requested. */
export function addGauges(registry: Registry, read: GaugeSources): void {
  const { gauge, gauges } = instrumentsOf(registry);
  gauges('drones', 'Drones, by status.', {
    label: 'status',
    read: read.drones,
  });
  gauge('drone_sessions', 'Sessions of drones on this controller.', read.sessionCount);
  gauge('connections', 'Long-lived connections to this controller.', read.connectionCount);
  gauge(
    'lease_sessions',
    'Holders of leases that get revocations from this controller.',
    read.leaseSessionCount,
  );
  gauges('waiters', 'Callers that wait for a resource, at all controllers, by face.', {
    label: 'face',
    async read() {
      const counts = await read.waiters();
      return Object.fromEntries(FACES.map((face) => [face, counts[face] ?? 0]));
    },
  });
  gauges(
    'permits_used_ratio',
    'Which share of the permits of all keys together is in use, of the 50 namespaces with the largest.',
    { label: 'namespace', read: read.permitShares },
  );
  gauge(
    'reap_callbacks_failing',
    'Callbacks of expired leases that have failed and are tried again, of all services.',
    read.failingCallbacks,
  );
  gauge(
    'keys_crash_looping',
    'Keys whose backends fail one after another, so that their starts are delayed.',
    read.crashLoops,
  );
  gauges(
    'task_behind_ms',
    'For how long a task that one controller does has not caught up with what feeds it; 0 if it has.',
    { label: 'task', read: read.behindMs },
  );
  gauge(
    'event_stream_lag_ms',
    'How long an older transaction has held events back; 0 if none does.',
    async () => (await read.events.lag()).lagMs,
  );
  gauge(
    'event_readers',
    'Readers of the event stream that this controller serves.',
    () => read.events.readerCount,
  );
}

/** A metric as it is documented. */
interface DescribedMetric {
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
  permitShares: never,
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

/** What is counted about limits. */
export function countRefusals(registry: Registry) {
  return instrumentsOf(registry).counter(
    'limit_refusals_total',
    'Calls, connections and streams that were refused by a limit of fair use, by limit and role; the limit is "load" for calls that an overloaded controller refuses, and the role is "none" for callers without a valid token.',
    ['limit', 'role'],
  );
}

/** Gauges that are read when the metrics are requested. */
export function addFairUseGauges(
  registry: Registry,
  read: {
    readonly greatestUseOf: (limit: FairUseLimit) => number | undefined;
    readonly waitingReads: () => number;
  },
): void {
  const { gauge, gauges } = instrumentsOf(registry);
  gauges('limit_use_ratio', 'Share of a limit that its heaviest user uses, from 0 to 1.', {
    label: 'limit',
    read: () =>
      Object.fromEntries(
        FAIR_USE_LIMITS.flatMap((limit) => {
          const ratio = read.greatestUseOf(limit);
          return ratio === undefined ? [] : [[limit, ratio]];
        }),
      ),
  });
  gauge('waiting_reads', 'Reads that wait for their turn.', read.waitingReads);
}

/** What is counted about datacenters and the homes of keys. */
export function createPeerMetrics(registry: Registry) {
  const { counter } = instrumentsOf(registry);
  const resolves = counter(
    'reservation_resolves_total',
    'Homes of keys that were looked up, by where the answer came from.',
    ['from'],
  );
  const calls = counter(
    'peer_calls_total',
    'Calls to other datacenters, by outcome: refused is an error that it answered.',
    ['datacenter', 'outcome'],
  );
  return {
    resolved: (from: 'cache' | 'store' | 'nowhere') => resolves.inc({ from }),
    peerCall: (datacenter: string, outcome: CallOutcome) => calls.inc({ datacenter, outcome }),
  };
}

/** Gauges that are read when the metrics are requested. */
export function addPeerGauges(
  registry: Registry,
  read: {
    readonly peers: readonly string[];
    readonly isReachable: (datacenter: string) => boolean;
    readonly isStoreReachable: () => boolean;
  },
): void {
  const { gauge, gauges } = instrumentsOf(registry);
  gauges('peer_up', 'Whether a datacenter can be reached from this controller: 1 or 0.', {
    label: 'datacenter',
    read: () =>
      Object.fromEntries(read.peers.map((name) => [name, read.isReachable(name) ? 1 : 0])),
  });
  gauge('reservation_store_up', 'Whether the reservation store can be reached: 1 or 0.', () =>
    read.isStoreReachable() ? 1 : 0,
  );
}

/** What is counted about restores and failovers of the database. */
export function countHoldOffs(registry: Registry) {
  return instrumentsOf(registry).counter(
    'hold_offs_total',
    'Restores and failovers of the database that this controller detected, by cause.',
    ['cause'],
  );
}

/** A gauge that is read when the metrics are requested. */
export function addHoldOffGauge(registry: Registry, remainingMs: () => Promise<number>): void {
  instrumentsOf(registry).gauge(
    'hold_off_remaining_ms',
    'How long new grants will still be held off; 0 if they are not.',
    remainingMs,
  );
}

type Numbers = Readonly<Record<string, number>>;

/** Makes the instruments of a registry. All names begin with `leasehold_`. */
function instrumentsOf(registry: Registry) {
  const registers = [registry];
  const named = (name: string, help: string) => ({ name: `leasehold_${name}`, help, registers });
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: Label[]) =>
      new Counter({ ...named(name, help), labelNames }),

    histogram: <Label extends string>(
      name: string,
      help: string,
      shape: { labelNames: Label[]; buckets: number[] },
    ) => new Histogram({ ...named(name, help), ...shape }),

    /** A number that is read when the metrics are requested. */
    gauge: (name: string, help: string, read: () => number | Promise<number>) =>
      new Gauge({
        ...named(name, help),
        async collect() {
          this.set(await read());
        },
      }),

    /** Numbers by the value of one label, which are read when the metrics are requested. */
    gauges: (
      name: string,
      help: string,
      by: { label: string; read: () => Numbers | Promise<Numbers> },
    ) =>
      new Gauge({
        ...named(name, help),
        labelNames: [by.label],
        async collect() {
          const numbers = await by.read();
          // What is not read any more would stay for as long as this process.
          this.reset();
          for (const [value, number] of Object.entries(numbers)) {
            this.labels(value).set(number);
          }
        },
      }),
  };
}
