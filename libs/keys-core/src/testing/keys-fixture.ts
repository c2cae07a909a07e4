import type { BackendReport, ConnectResult, KeyService, NamedConnect } from '../keys/key-types.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { ChooseDrone } from '../keys/start-backend.ts';
import { createKeyService } from '../keys/index.ts';
import type { BackendStatus } from '../kernel/backends.ts';
import { HEARTBEAT_MS, KEY_LADDERS } from '../kernel/ladder.ts';
import { chooseDrone, offerOf, readOfferedPrograms } from '../fleet/sql/drones.ts';
import type { Offered } from '../kernel/drones.ts';
import type { SessionRef } from '../fleet/sql/drone-sessions.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import type { StoreOptions } from '../postgres/open-store.ts';
import { openKernel, type Kernel } from './kernel-fixture.ts';

/** A controller's keys face on a real database, with the real scheduler. */
export interface Keys extends Kernel {
  readonly keys: KeyService;
  /** What the drones of this datacenter offer. */
  readonly offered: () => Promise<Offered>;
  /** What the observer was told of grants, as `outcome status`, and of waits and overstays. */
  readonly observed: string[];
}

export const CLIENT: Caller = {
  principal: 'token-c',
  actor: 'client',
  role: 'client',
  namespaces: null,
};
export const OPERATOR: Caller = {
  principal: 'token-o',
  actor: 'operator',
  role: 'operator',
  namespaces: null,
};

/** A keys face on a database of its own, or on the one that is named: then it is a second controller. */
export async function openKeys(
  options: Partial<StoreOptions> & {
    /** Called after every choice of a drone, before it takes effect, so that a test can intervene. */
    readonly afterChoice?: (kernel: Kernel) => Promise<void>;
  } = {},
): Promise<Keys> {
  const { afterChoice, ...storeOptions } = options;
  const observed: string[] = [];
  const kernel = await openKernel({
    ...storeOptions,
    observer: {
      ...SILENT_OBSERVER,
      grant: (_face, outcome, status) => observed.push(`${outcome} ${status}`),
      waited: (_face, _durationMs, outcome) => observed.push(`waited ${outcome}`),
      backendFailed: (reason) => observed.push(`failed ${reason}`),
      overstay: (backendId) => observed.push(`overstay ${backendId}`),
    },
  });
  const { store, leases } = kernel;
  const choose: ChooseDrone = async (wanted) => {
    const chosen = await chooseDrone(store, {
      ...wanted,
      datacenter: store.datacenter,
      heartbeatMs: HEARTBEAT_MS.standard,
      random: () => store.ids.random(),
    });
    await afterChoice?.(kernel);
    return chosen;
  };
  const keys = createKeyService({
    store,
    leases,
    ladder: KEY_LADDERS.standard,
    heartbeatMs: HEARTBEAT_MS.standard,
    chooseDrone: choose,
  });
  const offered = async (): Promise<Offered> =>
    offerOf(
      await readOfferedPrograms(store.general, {
        datacenter: store.datacenter,
        heartbeatMs: HEARTBEAT_MS.standard,
      }),
    );
  return { ...kernel, keys, offered, observed };
}

/** Asks for the key `demo` and a `room`, without waiting, unless `change` says otherwise. */
export function connectInput(change: Partial<NamedConnect> = {}): NamedConnect {
  return {
    key: { name: 'demo', namespace: '', tag: '' },
    spawn: { program: 'room', args: [], env: {} },
    waitMs: 0,
    waitFor: 'granted',
    ...change,
  };
}

/** The key of this name, in the root namespace, without a tag. */
export function keyNamed(name: string): NamedConnect['key'] {
  return { name, namespace: '', tag: '' };
}

export function connect(
  { keys }: Keys,
  change: Partial<NamedConnect> = {},
  {
    caller = CLIENT,
    signal = new AbortController().signal,
  }: { caller?: Caller; signal?: AbortSignal } = {},
): Promise<ConnectResult> {
  return keys.connect(connectInput(change), caller, signal);
}

/** A drone's report about a backend. */
export function reportOf(
  drone: SessionRef,
  backendId: string,
  status: BackendStatus,
  change: Partial<BackendReport> = {},
): BackendReport {
  return { ...drone, backendId, status, ...change };
}

/** Makes the newest heartbeat of a drone older, as if `byMs` had gone by. */
export async function ageHeartbeat(
  { store }: Kernel,
  droneId: string,
  byMs: number,
): Promise<void> {
  await store.general.$executeRaw`
    update drone set heartbeat_at = heartbeat_at - ${byMs} * interval '1 millisecond' where id = ${droneId}`;
}

/** How many rows each table has that a connect may write. */
export async function rowCounts({ store }: Kernel): Promise<Record<string, number>> {
  const [counts] = await store.general.$queryRaw<Record<string, number>[]>`
    select
      (select count(*)::int from lease) as leases,
      (select count(*)::int from lease_event) as events,
      (select count(*)::int from lease_waiter) as waiters,
      (select count(*)::int from lease_request) as requests,
      (select count(*)::int from backend) as backends,
      (select count(*)::int from backend_state) as states,
      (select count(*)::int from backend_action) as actions`;
  return counts ?? {};
}

/** A database into which no connect has written anything. */
export const NO_ROWS = {
  leases: 0,
  events: 0,
  waiters: 0,
  requests: 0,
  backends: 0,
  states: 0,
  actions: 0,
};

export interface ActionSeen {
  readonly kind: 'spawn' | 'terminate';
  readonly mode: string | null;
  readonly state: 'open' | 'acked' | 'cancelled';
  readonly payload: Record<string, unknown>;
}

/** The actions of a backend, in the order in which they were queued. */
export async function actionsOf({ store }: Kernel, backendId: string): Promise<ActionSeen[]> {
  return store.general.$queryRaw<ActionSeen[]>`
    select kind, payload ->> 'mode' as mode, payload,
      case when cancelled_at is not null then 'cancelled' when acked_at is not null then 'acked' else 'open' end as state
    from backend_action where backend_id = ${backendId} order by id`;
}

/** The states of a backend as they were recorded, and its present state. */
export async function statesOf(
  { store }: Kernel,
  backendId: string,
): Promise<{ states: string[]; now: string }> {
  const rows = await store.general.$queryRaw<
    { status: string; reason: string | null; now: string }[]
  >`
    select s.status, s.reason, b.status || coalesce(' ' || b.reason, '') as now
    from backend_state s join backend b on b.id = s.backend_id
    where b.id = ${backendId} order by s.id`;
  return {
    states: rows.map(({ status, reason }) => (reason === null ? status : `${status} ${reason}`)),
    now: rows[0]?.now ?? '',
  };
}
