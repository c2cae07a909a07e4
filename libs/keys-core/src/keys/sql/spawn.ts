import { traceField } from '@leasehold/service-kit/tracing';
import {
  assertNoHoldOff,
  assertReadBack,
  grant,
  grantedColumns,
  type GrantedRow,
  grantReleasedKey,
  grantsOf,
  guardNow,
  isAtHome,
  type KeyedRequest,
} from '../../grants/index.ts';
import { deadlinesFrom } from '../../kernel/ladder.ts';
import type { Grant, GrantRequest } from '../../kernel/lease.ts';
import type { Store } from '../../postgres/open-store.ts';
import { type Fragment, fragment, NO_FRAGMENT, type Sql } from '../../postgres/sql.ts';
import type { Seen } from '../../postgres/witness/witness-stamp.ts';
import { firstIdleCheck } from './idle-stop.ts';
import { recordLostBackends } from './key-backend.ts';

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

/**
 * Starts a backend for a key that nobody ever held, or whose last holder released it: by one statement
 * what `spawn` of `spawn.ts` does in a transaction of five round trips.
 *
 * - **Locks** the drone's row `for key share`, then the key's: see {@link grantReleasedKey}.
 * - **Atomic because** it is one statement, and each part writes only for the key that was granted.
 *
 * The store's witness must be ready. @returns undefined when nothing was granted: the transaction
 * then finds out why, or grants after all.
 */
async function spawnPlain(store: Store, plan: SpawnPlan): Promise<Grant | undefined> {
  const { request } = plan;
  const sentAtMs = store.clock.nowMs();
  const rows = await store.transitions.$queryRaw<GrantedRow[]>`
    with target as materialized (
      select d.clock_id, d.local_time_ms, d.heartbeat_at
      from drone d
      where d.id = ${plan.droneId} and not d.draining and d.lost_at is null
        and d.stopped_session is distinct from d.session
        and d.local_time_ms is not null and d.heartbeat_at is not null
      for key share
    ),
    ${grantReleasedKey(request, store.witness.mark, fragment`target`)},
    granted_here as materialized (
      -- Stored instants are rounded to the millisecond: never later than now.
      select g.*, d.clock_id, d.local_time_ms + extract(epoch from
          least(g.expires_at - g.ttl_ms * interval '1 millisecond', clock_timestamp()) - d.heartbeat_at
        )::float8 * 1000 as local_ms
      from granted g
      cross join target d
    ),
    ${spawnRows(plan)}
    select ${grantedColumns(fragment`(select c.ended_at from candidate c)`)} from granted g`;
  const { grants, seen } = grantsOf(rows, [request]);
  const own = grants.get(request.leaseId);
  if (own === undefined) return undefined;
  store.clockWatch.observe(own.asOf, sentAtMs, store.clock.nowMs());
  store.witness.saw(seen);
  return own;
}

/** What a connect that starts a backend writes besides the grant. */
export interface SpawnPlan {
  readonly request: GrantRequest;
  readonly datacenter: string;
  readonly droneId: string;
  readonly backendId: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitSeconds: number | null;
  readonly idleStopSeconds: number | null;
  /** Written with the grant, so that a replay of the same request finds this one's answer. */
  readonly idempotent: KeyedRequest | null;
  /** Whether the key seemed never to have been held, or released by its last holder. */
  readonly isPlain: boolean;
}

/**
 * The part of a statement that writes a backend, its first state, the request's record and the spawn
 * action, for the one row of its `granted_here`: `namespace`, `name`, `tag`, `lease_id`, `fencing_token`,
 * the drone's `clock_id`, and `local_ms`, when the key was granted by that clock.
 *
 * The action's deadlines are in the drone's clock as of its newest heartbeat, which was received after
 * it was sent: they are early and never late. No process is started on them alone.
 */
function spawnRows(plan: SpawnPlan): Fragment {
  const { request, idempotent, backendId, droneId, program, args, env, idleStopSeconds } = plan;
  const offsets = deadlinesFrom(request.ladder, 0, request.ladder.ttlMs);
  const action = {
    kind: 'spawn',
    backendId,
    program,
    args,
    env,
    key: { name: request.name, namespace: request.namespace, tag: request.tag },
    leaseId: request.leaseId,
    ladder: request.ladder,
    lifetimeLimitSeconds: plan.lifetimeLimitSeconds,
    ...traceField(),
  };
  return fragment`
    made as (
      insert into backend (
        id, drone_id, datacenter, clock_id, program, args, env, lifetime_limit_seconds,
        idle_stop_seconds, last_used_at, namespace, name, tag, lease_id, fencing_token, status, status_rank
      )
      select
        ${backendId}, ${droneId}, ${plan.datacenter}, g.clock_id, ${program},
        ${JSON.stringify(args)}::jsonb, ${JSON.stringify(env)}::jsonb,
        ${plan.lifetimeLimitSeconds}::int, ${idleStopSeconds}::int,
        case when ${idleStopSeconds !== null} then clock_timestamp() end, g.namespace, g.name, g.tag, g.lease_id, g.fencing_token,
        'scheduled', 0
      from granted_here g
    ),
    ${idleStopSeconds === null ? NO_FRAGMENT : firstIdleCheck(backendId, idleStopSeconds)}
    state as (
      insert into backend_state (backend_id, status) select ${backendId}, 'scheduled' from granted_here
    ),
    request as (
      insert into lease_request (id, lease_id, answer, face, fingerprint)
      select lease_request_id(${idempotent?.principal ?? null}, ${idempotent?.idempotencyKey ?? null}), g.lease_id,
        ${JSON.stringify({ backendId, spawned: true })}::jsonb, 'key', ${idempotent?.fingerprint ?? null}
      from granted_here g
      where ${idempotent !== null}
    ),
    action as (
      insert into backend_action (backend_id, drone_id, kind, payload)
      select ${backendId}, ${droneId}, 'spawn',
        ${JSON.stringify(action)}::jsonb || jsonb_build_object(
          'clockId', g.clock_id,
          'fencingToken', g.fencing_token::text,
          'deadlines', jsonb_build_object(
            'renewAtMs', g.local_ms + ${offsets.renewAtMs}::float8,
            'softTerminateAtMs', g.local_ms + ${offsets.softTerminateAtMs}::float8,
            'hardTerminateAtMs', g.local_ms + ${offsets.hardTerminateAtMs}::float8
          )
        )
      from granted_here g
    )`;
}
