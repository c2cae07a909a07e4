import type { Deadlines, Ladder } from '../../kernel/lease/ladder.ts';
import { deadlinesFrom } from '../../kernel/lease/ladder.ts';
import type { Grant, GrantRequest } from '../../kernel/lease/outcomes.ts';
import { recordedResource } from '../../kernel/lease/recorded-request.ts';
import { recordLostBackends } from './lost-backends.ts';
import {
  type KeyedRequest,
  assertNoHoldOff,
  assertReadBack,
  grant,
  guardNow,
  isAtHome,
} from '../../grants/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { Sql } from '../../postgres/sql.ts';
import type { Seen } from '../../postgres/witness/witness-stamp.ts';

/** What the connect transaction writes besides the grant. */
export interface SpawnPlan {
  readonly request: GrantRequest;
  readonly droneId: string;
  readonly backendId: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitSeconds: number | null;
  /** Written with the grant, so that a replay of the same request finds this one's answer. */
  readonly idempotent: KeyedRequest | null;
}

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
 * The one transaction of a connect that starts a backend: grant, backend, spawn action.
 *
 * The drone's row is locked `for key share`: its heartbeats go on, and a drain, which locks it
 * `for update`, waits for this transaction and then sees its backend. An expired key that is taken
 * over has its former backend recorded as lost here too.
 *
 * The action's deadlines are in the drone's clock as of its newest heartbeat, which was received
 * after it was sent: they are early and never late. No process is started on them alone.
 */
export async function spawn(store: Store, plan: SpawnPlan): Promise<SpawnOutcome> {
  await store.witness.ready();
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
  await insertBackend(tx, store, plan, { grant: own, clock });
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
      and d.local_time_ms is not null and d.heartbeat_at is not null
    for key share`;
  if (row !== undefined) store.clockWatch.observe(row.asOf, sentAtMs, store.clock.nowMs());
  return row;
}

/** The deadlines of a grant that its holder did not ask for, from the holder's newest heartbeat. */
function firstDeadlines(ladder: Ladder, clock: DroneClock, own: Grant): Deadlines {
  return deadlinesFrom(ladder, clock.localTimeMs + (own.asOf - clock.heartbeatAt), own.remainingMs);
}

async function insertBackend(
  tx: Sql<'transitions'>,
  store: Store,
  plan: SpawnPlan,
  made: { grant: Grant; clock: DroneClock },
): Promise<void> {
  const { grant: own, clock } = made;
  const { idempotent } = plan;
  const action = {
    kind: 'spawn',
    clockId: clock.clockId,
    backendId: plan.backendId,
    program: plan.program,
    args: plan.args,
    env: plan.env,
    key: { name: own.name, namespace: own.namespace, tag: plan.request.tag },
    leaseId: own.leaseId,
    fencingToken: own.fencingToken,
    deadlines: firstDeadlines(own.ladder, clock, own),
    ladder: own.ladder,
    lifetimeLimitSeconds: plan.lifetimeLimitSeconds,
  };
  await tx.$queryRaw`
    with made as (
      insert into backend (
        id, drone_id, datacenter, clock_id, program, args, env, lifetime_limit_seconds,
        namespace, name, tag, lease_id, fencing_token, status, status_rank
      )
      values (
        ${plan.backendId}, ${plan.droneId}, ${store.datacenter}, ${clock.clockId}::uuid, ${plan.program},
        ${JSON.stringify(plan.args)}::jsonb, ${JSON.stringify(plan.env)}::jsonb,
        ${plan.lifetimeLimitSeconds}::int, ${own.namespace}, ${own.name}, ${plan.request.tag},
        ${own.leaseId}::uuid, ${own.fencingToken}::bigint, 'scheduled', 0
      )
      returning id
    ),
    state as (
      insert into backend_state (backend_id, status) select id, 'scheduled' from made
    ),
    request as (
      insert into lease_request (principal, idempotency_key, lease_id, answer, resource, fingerprint)
      select ${idempotent?.principal ?? null}, ${idempotent?.idempotencyKey ?? null},
        ${own.leaseId}::uuid, ${JSON.stringify({ backendId: plan.backendId, spawned: true })}::jsonb,
        ${idempotent === null ? null : recordedResource(idempotent)},
        ${idempotent?.fingerprint ?? null}
      where ${idempotent !== null}
    )
    insert into backend_action (backend_id, drone_id, kind, payload)
    values (${plan.backendId}, ${plan.droneId}, 'spawn', ${JSON.stringify(action)}::jsonb)
    returning id::text`;
}
