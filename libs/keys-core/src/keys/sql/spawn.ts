import type { Grant, GrantRequest } from '../../kernel/lease/outcomes.ts';
import { assertNoHoldOff, assertReadBack, grant, guardNow, isAtHome } from '../../grants/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { Sql } from '../../postgres/sql.ts';
import type { Seen } from '../../postgres/witness/witness-stamp.ts';
import { recordLostBackends } from './lost-backends.ts';
import { spawnPlain } from './spawn-plain.ts';
import { spawnRows, type SpawnPlan } from './spawn-rows.ts';

export type SpawnOutcome =
  | {
      readonly outcome: 'spawned';
      readonly grant: Grant;
      readonly lostBackendIds: readonly string[];
    }
  /** Somebody else was granted the key: read it again. */
  | { readonly outcome: 'held' }
  /** The reservation that the caller came with is not, or no longer, the key's active home here. */
  | { readonly outcome: 'not_home' }
  /** The drone was drained or lost since it was chosen: choose again. */
  | { readonly outcome: 'drone_gone' };

interface DroneClock {
  readonly clockId: string;
  readonly localTimeMs: number;
  readonly heartbeatAt: number;
}

/**
 * Grants a key and records its backend and the spawn action, at once: by one statement if that is
 * enough, see {@link spawnPlain}, and otherwise in one transaction.
 *
 * The drone's row is locked `for key share`: its heartbeats go on, and a drain, which locks it
 * `for update`, waits for this transaction and then sees its backend. An expired key that is taken
 * over has its former backend recorded as lost here too.
 */
export async function spawn(store: Store, plan: SpawnPlan): Promise<SpawnOutcome> {
  await store.witness.ready();
  const plain = plan.isPlain ? await spawnPlain(store, plan) : undefined;
  if (plain !== undefined) return { outcome: 'spawned', grant: plain, lostBackendIds: [] };
  const { outcome, seen } = await store.transitions.$transaction((tx) =>
    spawnWithin(store, tx, plan),
  );
  store.witness.saw(seen);
  return outcome;
}

async function spawnWithin(
  store: Store,
  tx: Sql<'transitions'>,
  plan: SpawnPlan,
): Promise<{ readonly outcome: SpawnOutcome; readonly seen: Seen }> {
  const clock = await lockDrone(store, tx, plan.droneId);
  if (clock === undefined) return { outcome: { outcome: 'drone_gone' }, seen: {} };
  const sentAtMs = store.clock.nowMs();
  const { grants, seen } = await grant(tx, [plan.request], {
    guard: guardNow(store),
    onLocked: 'skip',
  });
  const own = grants.get(plan.request.leaseId);
  if (own === undefined) {
    await assertNoHoldOff(store, tx);
    return { outcome: { outcome: await whyRefused(tx, plan.request) }, seen: {} };
  }
  store.clockWatch.observe(own.asOf, sentAtMs, store.clock.nowMs());
  const lostBackendIds =
    own.previous === null ? [] : await recordLostBackends(tx, [own.previous.leaseId]);
  await insertBackend(tx, plan, { grant: own, clock });
  return { outcome: { outcome: 'spawned', grant: own, lostBackendIds }, seen };
}

async function whyRefused(
  tx: Sql<'transitions'>,
  request: GrantRequest,
): Promise<'held' | 'not_home'> {
  if (request.homeReservation === undefined) return 'held';
  await assertReadBack(tx);
  return (await isAtHome(tx, request)) ? 'held' : 'not_home';
}

/** Also reads the database's clock on the connection that the grant will be sent on. */
async function lockDrone(store: Store, tx: Sql<'transitions'>, droneId: string) {
  const sentAtMs = store.clock.nowMs();
  const [row] = await tx.$queryRaw<(DroneClock & { asOf: number })[]>`
    select
      extract(epoch from clock_timestamp())::float8 * 1000 as "asOf",
      d.clock_id as "clockId", d.local_time_ms as "localTimeMs",
      extract(epoch from d.heartbeat_at)::float8 * 1000 as "heartbeatAt"
    from drone d
    where d.id = ${droneId} and not d.draining and d.lost_at is null
      and d.stopped_session is distinct from d.session
      and d.local_time_ms is not null and d.heartbeat_at is not null
    for key share`;
  if (row !== undefined) store.clockWatch.observe(row.asOf, sentAtMs, store.clock.nowMs());
  return row;
}

/** The backend and what comes with it, for a grant that this transaction has made. */
async function insertBackend(
  tx: Sql<'transitions'>,
  plan: SpawnPlan,
  { grant: own, clock }: { readonly grant: Grant; readonly clock: DroneClock },
): Promise<void> {
  const usedMs = own.ladder.ttlMs - Math.min(own.remainingMs, own.ladder.ttlMs);
  const localMs = clock.localTimeMs + (own.asOf - clock.heartbeatAt) - usedMs;
  await tx.$queryRaw`
    with granted_here as materialized (
      select ${own.namespace} as namespace, ${own.name} as name, ${plan.request.tag} as tag,
        ${own.leaseId}::uuid as lease_id, ${own.fencingToken}::bigint as fencing_token,
        ${clock.clockId}::uuid as clock_id, ${localMs}::float8 as local_ms
    ),
    ${spawnRows(plan)}
    select from granted_here`;
}
