import { invariant } from '../../kernel/errors.ts';
import type { Ladder } from '../../kernel/ladder.ts';
import type {
  GrantRef,
  GrantRequest,
  RefusalReason,
  RenewOutcome,
  UpdateOutcome,
} from '../../kernel/lease.ts';
import type { Face } from '../../kernel/resource.ts';
import {
  type GrantGuard,
  isHeldOff,
  isTakable,
  LOG_PLACE,
  NEVER,
} from '../../postgres/clock/expiry.ts';
import {
  arrayText,
  C,
  type Fragment,
  fragment,
  isFace,
  NO_FRAGMENT,
  SCOPE_NAME,
  type Sql,
} from '../../postgres/sql.ts';
import type { LogPlace } from '../../postgres/witness/witness-stamp.ts';
import { EXPIRE_LOCKED, EXPIRED_FACTS, GRANT_EVENTS, IS_CONFIRMED } from './facts.ts';
import { HAS_PERMITS } from './grant-rows.ts';
import { BEGUN, isInTime, LASTS, unlessLate } from './in-time.ts';
import { upsertGrants } from './upsert-grants.ts';

/** A renewal that one holder asks for. `principal` is the authenticated caller, never a claimed one. */
export interface RenewRequest extends GrantRef {
  readonly principal: string;
}

/**
 * Extends each grant that is in force for a good while yet, renewable and asked for by its holder with
 * its token: what nearly all renewals meet. Whatever is without an answer here is for the full
 * statement, {@link renew}, which also refuses, and judges by itself.
 *
 * - **Does not lock first**, and so writes each row once and not twice. `in-time.ts` has what makes that
 *   safe: no grant had expired by the time its row was taken, and none is revived.
 * - **Waits for a locked row, but hardly**, and fails as a whole then.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 *
 * @returns undefined when it failed for one of these reasons, and did nothing.
 */
export async function renewInTime(
  sql: Sql<'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed | undefined> {
  const groups = await unlessLate(
    () => sql.$queryRaw<JudgedGroup[]>`
    with ${BEGUN},
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      -- One pass through the index in its order, and no join: both cost more than the update.
      where l.lease_id = any(${leaseIdsOf(requests)}::uuid[]) and l.face ${isFace(face)}
        and l.renewable and l.released_at is null and l.end_reason is null and ${LASTS}
        and ((l.lease_id, l.fencing_token, l.principal)
          in (${askedRenewals(requests)})) is true
      returning
        l.lease_id, l.expires_at, l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms
    )
    select ${RENEWED_COLUMNS},
      -- Of every row, after it was taken.
      ${isInTime(fragment`max(clock_timestamp())`)}
    from renewed r
    group by ${LADDER}`,
  );
  return groups === undefined ? undefined : renewedOf(groups);
}

/**
 * Extends each grant that is in force, renewable and asked for by its holder with its token, by the
 * ladder that is stored with it.
 *
 * - **Locks first, judges then**: a renewal that passed its condition and then waited for the row
 *   was seen to revive an expired grant. The inner query takes each row, by one probe of the index,
 *   and is never merged into the outer one, because it locks; the outer one reads the clock after it.
 * - **Skips locked rows**: one locked row must not stop the other 9,999. A skipped renewal has no
 *   answer here and is tried again. A statement that waits for no row cannot be part of a deadlock, so
 *   it needs no order of locking.
 * - **Says "expired" permanently**: a grant that it refuses as expired is ended in the same statement,
 *   so that no step of the clock can make the next renewal succeed.
 * - **Finds a locked row by its place** (`ctid`), which is a quarter of the price of the index. A row
 *   that another transaction has changed since the statement's snapshot is not found that way, and
 *   has no answer: as if it had been skipped.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 * - **Answers in groups**: a thousand grants of one ladder are one row, because each row of an answer
 *   costs time in the driver. The remaining time of a group is its shortest, so that it is early by the
 *   statement's own time at most, and never late.
 * - **A request without an answer** was skipped, or no row has its lease id and principal any more.
 *
 * Most renewals are carried out by {@link renewInTime} and do not come here.
 */
export async function renew(
  sql: Sql<'guests' | 'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed> {
  const groups = await sql.$queryRaw<JudgedGroup[]>`
    with asked as materialized (${askedRenewals(requests)}),
    judged as materialized (
      select
        k.row_at, k.lease_id, k.end_reason,
        k.ttl_ms, k.renew_after_ms, k.soft_after_ms, k.hard_after_ms,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when k.fencing_token <> a.fencing_token then 'superseded'
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when not k.renewable then 'renewal_blocked'
        end as refusal
      from asked a
      cross join lateral (
        select
          l.ctid as row_at, l.lease_id, l.fencing_token, l.released_at, l.end_reason, l.expires_at,
          l.renewable, l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms
        from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face ${isFace(face)}
        for no key update of l skip locked
      ) k
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      from judged j
      where l.ctid = j.row_at and j.refusal is null
      returning
        l.lease_id, l.expires_at, j.ttl_ms, j.renew_after_ms, j.soft_after_ms, j.hard_after_ms
    ),
    expired as (
      update lease l
      set end_reason = 'expired'
      from judged j
      where l.lease_id = any(array(select k.lease_id from judged k where k.refusal = 'expired'))
        and l.lease_id = j.lease_id and j.refusal = 'expired' and j.end_reason is null
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token, ${IS_CONFIRMED}
    ),
    ${EXPIRED_FACTS}
    select ${RENEWED_COLUMNS}
    from renewed r
    group by ${LADDER}
    union all
    select string_agg(j.lease_id::text, ','), j.refusal, 0, 0, 0, 0, 0, '0', '0/0'
    from judged j
    where j.refusal is not null
    group by j.refusal`;
  return renewedOf(groups);
}

/** All renewals of a statement that share one answer: each row of an answer costs time in the driver. */
interface JudgedGroup extends Ladder, LogPlace {
  /** Separated by commas. */
  leaseIds: string;
  refusal: RefusalReason | null;
  remainingMs: number;
}

interface Renewed {
  /** By lease id. */
  readonly outcomes: Map<string, RenewOutcome>;
  /** How far the log had come; undefined when nothing was renewed. */
  readonly place: LogPlace | undefined;
}

/** The requests as rows: `lease_id`, `fencing_token` and `principal`. */
function askedRenewals(requests: readonly RenewRequest[]): Fragment {
  const principals = new Map<string, number>();
  for (const { principal } of requests) {
    if (!principals.has(principal)) principals.set(principal, principals.size + 1);
  }
  return fragment`
      select
        a.lease_id, a.fencing_token,
        (${[...principals.keys()]}::text[])[a.principal_place] collate "C" as principal
      from unnest(
        ${leaseIdsOf(requests)}::uuid[],
        ${arrayText(requests.map((r) => r.fencingToken))}::bigint[],
        ${arrayText(requests.map((r) => principals.get(r.principal)))}::int[]
      ) as a (lease_id, fencing_token, principal_place)`;
}

/** For a parameter that is an array of ids. */
function leaseIdsOf(requests: readonly RenewRequest[]): string {
  return arrayText(requests.map((r) => r.leaseId));
}

/** The columns of a {@link JudgedGroup}, from the statement's `renewed` as `r`, grouped by {@link LADDER}. */
const RENEWED_COLUMNS = fragment`
      string_agg(r.lease_id::text, ',') as "leaseIds", null as refusal,
      date_part('epoch', min(r.expires_at) - clock_timestamp()) * 1000 as "remainingMs",
      r.ttl_ms as "ttlMs", r.renew_after_ms as "renewAfterMs",
      r.soft_after_ms as "softAfterMs", r.hard_after_ms as "hardAfterMs", ${LOG_PLACE}`;

const LADDER = fragment`r.ttl_ms, r.renew_after_ms, r.soft_after_ms, r.hard_after_ms`;

/** The answer to each request that the statement has judged. */
function renewedOf(groups: readonly JudgedGroup[]): Renewed {
  const outcomes = new Map<string, RenewOutcome>();
  let place: LogPlace | undefined;
  for (const group of groups) {
    const { leaseIds, refusal, remainingMs, run, position } = group;
    const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = group;
    const ladder = { renewAfterMs, softAfterMs, hardAfterMs, ttlMs };
    if (refusal === null) place = { run, position };
    for (const leaseId of leaseIds.split(',')) {
      outcomes.set(
        leaseId,
        refusal === null
          ? { leaseId, outcome: 'renewed', remainingMs, ladder }
          : { leaseId, outcome: 'refused', reason: refusal },
      );
    }
  }
  return { outcomes, place };
}

/** A holder's change of what its grant says of it. */
export interface UpdateRequest extends RenewRequest {
  /** Who is written into the event. */
  readonly actor: string;
  /** Any JSON; null for none. */
  readonly metadata: unknown;
}

/**
 * Replaces the metadata of a grant that is in force, if its holder asks with its token, and writes an
 * event with it. Does not renew.
 *
 * - **Locks first, judges then**: a grant that was taken over, released or revoked meanwhile is not
 *   changed, and no later holder ever gets the metadata of an earlier one.
 * - **Says "expired" permanently**, as {@link renew} does.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 *
 * @returns undefined when the row was locked and `onLocked` is `skip`, or no row has its lease id and principal.
 */
export async function updateMetadata(
  sql: Sql<'transitions' | 'slowLane'>,
  face: Face,
  request: UpdateRequest,
  onLocked: 'skip' | 'wait',
): Promise<UpdateOutcome | undefined> {
  const skip = onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const metadata = request.metadata == null ? null : JSON.stringify(request.metadata);
  const rows = await sql.$queryRaw<{ refusal: Exclude<RefusalReason, 'renewal_blocked'> | null }[]>`
    with locked as materialized (
      select l.lease_id, l.fencing_token, l.released_at, l.end_reason, l.expires_at
      from lease l
      where l.lease_id = ${request.leaseId}::uuid and l.principal = ${request.principal} ${C}
        and l.face ${isFace(face)}
      for no key update of l ${skip}
    ),
    judged as materialized (
      select k.*,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when k.fencing_token <> ${request.fencingToken}::bigint then 'superseded'
        end as refusal
      from locked k
    ),
    updated as (
      update lease l
      set metadata = ${metadata}::jsonb
      from judged j
      where l.lease_id = j.lease_id and j.refusal is null
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token, l.holder, l.metadata
    ),
    noted as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select u.face, u.namespace, u.name, u.lease_id, u.fencing_token, 'updated', ${request.actor},
        jsonb_build_object('holder', u.holder, 'metadata', u.metadata)
      from updated u
    ),
    ${EXPIRE_LOCKED}
    select j.refusal from judged j`;
  const [row] = rows;
  if (row === undefined) return undefined;
  return row.refusal === null
    ? { outcome: 'updated' }
    : { outcome: 'refused', reason: row.refusal };
}

/** What the holder has now. Instants are epoch milliseconds of the database. */
export interface AcquiredOrRenewed extends LogPlace, Ladder {
  readonly outcome: 'granted' | 'renewed';
  /** The requested id, unless a grant had it before. */
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly expiresAt: number;
  readonly asOf: number;
  /** When a renewed grant would have expired; null for a new one. */
  readonly expiredAt: number | null;
  /** How the grant before a new one ended; null when none existed, and for a renewed one. */
  readonly previousEnd: string | null;
}

/**
 * Renews the grant in force that this holder of this principal has, its token unchanged; otherwise
 * grants the resource if it is free or expired and nobody waits in line for it.
 *
 * It trusts the holder's name, so it is not on the wire: two processes of one name have one lease.
 *
 * - **Locks first, judges then**: `mine` is locked `for no key update`, as every renewal is, so that it
 *   passes beside a fenced transaction of its own. Only when nothing was renewed is a row locked to
 *   be taken over, as in {@link grant}, by the same judgement and with the same kind of token.
 * - **Skips locked rows**: the leader asks again soon, and must not wait for a row meanwhile.
 * - **Atomic because** it is one statement, and because {@link upsertGrants} judges after the row lock.
 * - **A new grant has a new id**: the one that is asked for, unless a grant had it before. Callers that
 *   repeat the request need not make a new id each time.
 * - **Index**: the primary key; `lease_event_lease_id_idx` for the id.
 * - **Undefined**: another holder has it, renewal of the caller's grant is blocked, somebody waits in
 *   line, or the row was locked or changed meanwhile. The caller reads which it was.
 */
export async function acquireOrRenew(
  sql: Sql<'general' | 'guests'>,
  r: GrantRequest,
  { belief, mark }: GrantGuard,
): Promise<AcquiredOrRenewed | undefined> {
  invariant(r.idempotencyKey === undefined, 'acquireOrRenew is repeated, not replayed');
  const metadata = r.metadata == null ? null : JSON.stringify(r.metadata);
  const rows = await sql.$queryRaw<AcquiredOrRenewed[]>`
    with wanted as materialized (
      select
        case
          when exists (select from lease_event e where e.lease_id = ${r.leaseId}::uuid)
            then gen_random_uuid()
          else ${r.leaseId}::uuid
        end as lease_id,
        ${r.face} ${C} as face, ${r.namespace} ${C} as namespace,
        ${r.name} ${C} as name, ${r.holder} as holder, ${r.principal} ${C} as principal,
        ${r.tag} as tag, ${r.comment}::text as comment, ${metadata}::jsonb as metadata,
        ${r.ladder.ttlMs}::int as ttl_ms, ${r.ladder.ttlMs}::int as first_ms,
        ${r.ladder.renewAfterMs}::int as renew_after_ms,
        ${r.ladder.softAfterMs}::int as soft_after_ms, ${r.ladder.hardAfterMs}::int as hard_after_ms,
        ${r.actor} as actor, null::text as home_reservation
    ),
    mine as materialized (
      select
        l.lease_id, l.renewable, l.released_at, l.end_reason, l.expires_at
      from wanted w
      join lease l on l.face = w.face and l.namespace = w.namespace and l.name = w.name
      where l.holder = w.holder and l.principal = w.principal and l.end_reason is null
      for no key update of l skip locked
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      from mine m
      where l.lease_id = m.lease_id and m.renewable
        and lease_unexpired(m.released_at, m.end_reason, m.expires_at)
      returning l.*, m.expires_at as expired_at
    ),
    takable as materialized (
      select l.face
      from wanted w
      join lease l on l.face = w.face and l.namespace = w.namespace and l.name = w.name
      where not exists (select from renewed)
        and ${isTakable(belief)}
      for update of l skip locked
    ),
    candidate as (
      select w.*
      from wanted w
      where not exists (select from renewed)
        and (exists (select from takable) or not exists (
          select from lease l
          where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        ))
        and not exists (
          select from lease_waiter o
          where o.face = w.face and o.namespace = w.namespace and o.name = w.name
            and o.valid_until > clock_timestamp()
        )
        and not ${HAS_PERMITS}
        and not ${isHeldOff(mark)}
    ),
    ${upsertGrants(isTakable(belief))},
    ${GRANT_EVENTS}
    select
      a.outcome, a.lease_id as "leaseId", a.fencing_token::text as "fencingToken",
      date_part('epoch', a.expires_at) * 1000 as "expiresAt",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf",
      a.ttl_ms as "ttlMs", a.renew_after_ms as "renewAfterMs",
      a.soft_after_ms as "softAfterMs", a.hard_after_ms as "hardAfterMs",
      date_part('epoch', a.expired_at) * 1000 as "expiredAt",
      a.previous_end as "previousEnd", ${LOG_PLACE}
    from (
      select 'renewed' as outcome, n.lease_id, n.fencing_token, n.expires_at, n.ttl_ms,
        n.renew_after_ms, n.soft_after_ms, n.hard_after_ms, n.expired_at, null::text as previous_end
      from renewed n
      union all
      select 'granted', g.lease_id, g.fencing_token, g.expires_at, g.ttl_ms,
        g.renew_after_ms, g.soft_after_ms, g.hard_after_ms, null, g.previous_end
      from granted g
    ) a`;
  return rows[0];
}

/** A controller whose witness has not moved for this long counts as stopped. */
const ALIVE_SECONDS = 10;

/** Notes which ladder a controller gives to keys, in the row of its witness. */
export async function noteKeyLadder(
  sql: Sql<'general'>,
  witnessId: string,
  ladder: Ladder,
): Promise<void> {
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = ladder;
  await sql.$queryRaw`
    update database_witness
    set key_ladder_ms = array[${renewAfterMs}::int, ${softAfterMs}::int, ${hardAfterMs}::int, ${ttlMs}::int]
    where id = ${witnessId}::uuid`;
}

/** The different ladders that running controllers give to keys; the shortest TTL first. */
export async function readKeyLadders(sql: Sql<'general'>): Promise<Ladder[]> {
  return sql.$queryRaw<Ladder[]>`
    select distinct key_ladder_ms[1] as "renewAfterMs", key_ladder_ms[2] as "softAfterMs",
      key_ladder_ms[3] as "hardAfterMs", key_ladder_ms[4] as "ttlMs"
    from database_witness
    where key_ladder_ms is not null
      and at > clock_timestamp() - ${ALIVE_SECONDS}::int * interval '1 second'
    order by "ttlMs", "hardAfterMs"`;
}

/** A holder that shares what it has held alone. */
export interface DowngradeRequest extends RenewRequest {
  readonly actor: string;
}

/**
 * Makes an exclusive grant that is in force a shared one, if its holder asks with its token, and writes an
 * event with it. It stays the same grant, with its token, and is not renewed.
 *
 * - **Locks first, judges then**.
 * - **A lease that is held in the ordinary way** becomes the first slot of a pool: its row gets the name of
 *   the slot, and the scope an own row in its place. Both in one statement: nobody finds the scope free.
 * - **No other grant is made meanwhile** that its change could make wrong: a statement that has not seen it
 *   finds the lease held alone, and grants nothing.
 * - **A grant that is shared already** stays so. A permit cannot be shared, nor a lease that has permits: `permit`.
 * - **Index**: `lease_lease_id_key`.
 *
 * @returns undefined when the row was locked and `onLocked` is `skip`, or no row has its lease id and principal.
 */
export async function downgrade(
  sql: Sql<'slowLane' | 'transitions'>,
  request: DowngradeRequest,
  onLocked: 'skip' | 'wait',
): Promise<Downgraded | undefined> {
  const skip = onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const rows = await sql.$queryRaw<DowngradedRow[]>`
    with locked as materialized (
      select l.lease_id, l.namespace, ${SCOPE_NAME}, l.fencing_token, l.released_at, l.end_reason,
        l.expires_at, l.pool, l.mode
      from lease l
      where l.lease_id = ${request.leaseId}::uuid and l.principal = ${request.principal} ${C}
        and l.face is not distinct from 'lease'
      for update of l ${skip}
    ),
    judged as materialized (
      select k.*,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when k.fencing_token <> ${request.fencingToken}::bigint then 'superseded'
          when k.mode = 'permit' then 'permit'
          when k.pool is null and exists (
            select from lease_declaration d
            where d.namespace = k.namespace and d.permits_per_key is not null
          ) then 'permit'
        end as refusal
      from locked k
    ),
    shared as (
      update lease l
      set mode = 'shared', pool = coalesce(l.pool, l.name),
          name = case when l.pool is null then l.name || chr(31) || '1' else l.name end
      from judged j
      where l.lease_id = j.lease_id and j.refusal is null and j.mode is distinct from 'shared'
      returning l.face, l.namespace, l.pool as scope, l.lease_id, l.fencing_token, l.holder,
        j.pool is null as is_first
    ),
    opened as (
      insert into lease (
        face, namespace, name, lease_id, fencing_token, holder, principal,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms,
        granted_at, renewed_at, expires_at, released_at, end_reason, stops_by, pool, mode
      )
      select s.face, s.namespace, s.scope, gen_random_uuid(), s.fencing_token, '', '', 4, 1, 2, 3,
        n.at, n.at, n.at, n.at, 'removed', ${NEVER}, s.scope, 'shared'
      from shared s
      cross join (select clock_timestamp() as at) n
      where s.is_first
    ),
    noted as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select s.face, s.namespace, s.scope, s.lease_id, s.fencing_token, 'updated', ${request.actor},
        jsonb_build_object('holder', s.holder, 'mode', 'shared')
      from shared s
    ),
    ${EXPIRE_LOCKED}
    select j.namespace, j.name, j.refusal from judged j`;
  const [row] = rows;
  if (row === undefined) return undefined;
  const { refusal, namespace, name } = row;
  if (refusal === null) return { outcome: 'updated', namespace, name };
  return refusal === 'permit' ? { outcome: 'permit' } : { outcome: 'refused', reason: refusal };
}

type Refused = Extract<UpdateOutcome, { outcome: 'refused' }>;

type Downgraded =
  | { readonly outcome: 'updated'; readonly namespace: string; readonly name: string }
  | { readonly outcome: 'permit' }
  | Refused;

interface DowngradedRow {
  readonly namespace: string;
  readonly name: string;
  readonly refusal: Refused['reason'] | 'permit' | null;
}
