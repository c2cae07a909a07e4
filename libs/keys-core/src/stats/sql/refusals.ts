/** Refused connects and acquires, by hour, resource and code. */
import type { Clock } from '../../kernel/clock.ts';
import type { Page, PageInput } from '../../kernel/face-types.ts';
import type { GrantRef, RefusalReason } from '../../kernel/lease.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import { databaseFailureOf } from '../../postgres/database-errors.ts';
import type { Store } from '../../postgres/open-store.ts';
import { decodeCursor, invalidCursor, isPageInstant, pageOf } from '../../postgres/paging.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import {
  C,
  type Fragment,
  fragment,
  inLastMinutes,
  joinFragments,
  SCOPE_NAME,
  type Sql,
} from '../../postgres/sql.ts';
import { bucketOf } from './stats-buckets.ts';

const KEPT_DAYS = 7;

/** What was refused to whom, and why. */
interface RefusedCall extends Resource {
  /** The code of the error; `held` where somebody else has the lease. */
  readonly code: string;
  /** The name of the caller's token, or of the person. */
  readonly actor: string;
  /** For whom it was asked; null for a key. */
  readonly holder: string | null;
  /** What the caller was told. */
  readonly reason: string;
}

/** Refusals with one code, of one resource, since they were last written. */
interface RefusalRow extends RefusedCall {
  readonly count: number;
  /** How long ago the first and the last one were. */
  readonly firstAgeMs: number;
  readonly lastAgeMs: number;
}

/**
 * Adds refusals to the hour that they end in.
 *
 * **Locks** the rows, in the order of the primary key, as every statement that adds does. **Atomic because** `set`
 * adds to the row as it is after the lock. **Index**: the primary key.
 */
async function recordRefusals(sql: Sql<'general'>, rows: readonly RefusalRow[]): Promise<void> {
  await sql.$queryRaw<{ code: string }[]>`
    insert into refusal as t (
      hour_at, face, namespace, name, code, count, first_at, last_at, actor, holder, reason
    )
    select date_bin('1 hour', r.last_at, timestamptz 'epoch'), r.face ${C}, r.namespace ${C}, r.name ${C},
      r.code ${C}, r.count, r.first_at, r.last_at, r.actor, r.holder, r.reason
    from (
      select u.*, clock_timestamp() - u.first_age_ms * interval '1 millisecond' as first_at,
        clock_timestamp() - u.last_age_ms * interval '1 millisecond' as last_at
      from unnest(
        ${rows.map((row) => row.face)}::text[],
        ${rows.map((row) => row.namespace)}::text[],
        ${rows.map((row) => row.name)}::text[],
        ${rows.map((row) => row.code)}::text[],
        ${rows.map((row) => row.count)}::bigint[],
        ${rows.map((row) => row.firstAgeMs)}::float8[],
        ${rows.map((row) => row.lastAgeMs)}::float8[],
        ${rows.map((row) => row.actor)}::text[],
        ${rows.map((row) => row.holder)}::text[],
        ${rows.map((row) => row.reason)}::text[]
      ) as u (
        face, namespace, name, code, count, first_age_ms, last_age_ms, actor, holder, reason
      )
    ) r
    order by 1, 2, 3, 4, 5
    on conflict (hour_at, face, namespace, name, code) do update set
      count = t.count + excluded.count,
      first_at = least(t.first_at, excluded.first_at),
      last_at = greatest(t.last_at, excluded.last_at),
      actor = excluded.actor, holder = excluded.holder, reason = excluded.reason
    returning t.code`;
}

/** Which refusals are wanted. A field that is left out does not filter. */
export interface RefusalListInput extends PageInput {
  readonly face?: Face | undefined;
  /** This one and its children; this one alone where a name is given. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly code?: string | undefined;
  /** ISO-8601, inclusive. */
  readonly from?: string | undefined;
  /** ISO-8601, exclusive. */
  readonly to?: string | undefined;
  /** Only those of the last so many minutes of the database's clock. */
  readonly windowMinutes?: number | undefined;
}

/** Refusals of one hour with one code, of one resource; caller, holder and reason are those of the last one. */
export interface RefusalView extends RefusedCall {
  readonly datacenter: string;
  readonly count: number;
  /** ISO-8601. */
  readonly firstAt: string;
  readonly lastAt: string;
}

/**
 * A page of refusals, those that were refused last first. One that is refused again while pages are read moves to the
 * first page. Index: `refusal_resource_idx` for one resource, or else the primary key.
 * @param limits namespaces that the reader is limited to, children included; null for no limit.
 * @throws {LeaseError} `request.invalid` for a cursor that no list answered.
 */
export async function listRefusals(
  { reads, datacenter }: Pick<Store, 'reads' | 'datacenter'>,
  input: RefusalListInput,
  limits: readonly string[] | null,
): Promise<Page<RefusalView>> {
  const rows = await reads.$queryRaw<Omit<RefusalView, 'datacenter'>[]>`
    select r.face, r.namespace, r.name, r.code, r.count::float8 as count, r.actor, r.holder, r.reason,
      ${isoText(fragment`r.first_at`)} as "firstAt", ${isoText(fragment`r.last_at`)} as "lastAt"
    from refusal r
    where ${joinFragments(conditionsOf(input, limits), ' and ')}
    order by r.last_at desc, r.face, r.namespace, r.name, r.code
    limit ${input.limit + 1}`;
  const page = pageOf(rows, input.limit, ({ lastAt, face, namespace, name, code }) => [
    lastAt,
    face,
    namespace,
    name,
    code,
  ]);
  return { ...page, items: page.items.map((row) => ({ ...row, datacenter })) };
}

function conditionsOf(
  { face, namespace, name, code, from, to, windowMinutes, cursor }: RefusalListInput,
  limits: readonly string[] | null,
): Fragment[] {
  const conditions = [withinLimits(limits, fragment`r.namespace`)];
  if (face !== undefined) conditions.push(fragment`r.face = ${face} ${C}`);
  if (name !== undefined) conditions.push(fragment`r.name = ${name} ${C}`);
  if (code !== undefined) conditions.push(fragment`r.code = ${code} ${C}`);
  if (namespace !== undefined) {
    conditions.push(
      name === undefined
        ? withinNamespace(namespace, fragment`r.namespace`)
        : fragment`r.namespace = ${namespace} ${C}`,
    );
  }
  if (from !== undefined) conditions.push(fragment`r.last_at >= ${from}::timestamptz`);
  if (to !== undefined) conditions.push(fragment`r.last_at < ${to}::timestamptz`);
  if (windowMinutes !== undefined) {
    conditions.push(inLastMinutes(fragment`r.hour_at`, windowMinutes + 60));
    conditions.push(inLastMinutes(fragment`r.last_at`, windowMinutes));
  }
  if (cursor !== undefined) {
    const [lastAt = '', ...place] = decodeCursor(cursor, 5);
    if (!isPageInstant(lastAt)) throw invalidCursor();
    const texts = joinFragments(place.map((text) => fragment`${text} ${C}`));
    conditions.push(fragment`(r.last_at < ${lastAt}::timestamptz
      or (r.last_at = ${lastAt}::timestamptz and (r.face, r.namespace, r.name, r.code) > (${texts})))`);
  }
  return conditions;
}

function isoText(instant: Fragment): Fragment {
  return fragment`to_char(${instant} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** Removes the refusals of hours that are over for a week. Index: the primary key. @returns how many. */
export function removeRefusals(sql: Sql<'general'>, pass: RetentionPass): Promise<number> {
  return removeOld(sql, pass, 'refusals', {
    old: fragment`
      select r.hour_at, r.face, r.namespace, r.name, r.code from refusal r
      where r.hour_at < clock_timestamp() - ${KEPT_DAYS}::int * interval '1 day'
      order by r.hour_at`,
    deletes: fragment`
      gone as (
        delete from refusal r using old o
        where (r.hour_at, r.face, r.namespace, r.name, r.code)
          = (o.hour_at, o.face, o.namespace, o.name, o.code)
        returning r.code
      )`,
  });
}

/** Refusals of one grant, for one reason, that make one event. */
export interface RefusedRow extends GrantRef {
  readonly face: Face;
  readonly principal: string;
  readonly reason: RefusalReason;
  readonly count: number;
  /** How long ago the first and the last one were. */
  readonly firstAgeMs: number;
  readonly lastAgeMs: number;
}

/** What is known of the grant of `r`: its row `l`, its facts `o`, its end `e` and the next grant `n`. */
const WHAT_IS_KNOWN = fragment`
      left join lateral (
        select l.lease_id, l.namespace, ${SCOPE_NAME}, l.fencing_token, l.holder, l.expires_at
        from lease l where l.lease_id = r.lease_id limit 1
      ) l on true
      left join lateral (
        select v.namespace, v.name, v.fencing_token, v.actor, v.detail ->> 'holder' as holder
        from lease_event v
        where v.lease_id = r.lease_id and v.kind in ('granted', 'taken_over')
        limit 1
      ) g on true
      cross join lateral (
        select coalesce(g.namespace, l.namespace) as namespace, coalesce(g.name, l.name) as name,
          coalesce(g.fencing_token, l.fencing_token) as fencing_token,
          coalesce(g.holder, l.holder) as holder,
          coalesce(g.actor, l.holder, r.principal) as actor
      ) o
      left join lateral (
        select v.at from lease_event v
        where v.lease_id = r.lease_id
          and (v.kind in ('released', 'failed', 'expired', 'removed')
            or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force'))
        order by v.id
        limit 1
      ) e on true
      left join lateral (
        select n.holder, n.fencing_token from lease n
        where n.face = r.face collate "C" and n.namespace = o.namespace and n.name = o.name
          and n.pool is null and n.lease_id <> r.lease_id
        limit 1
      ) n on true`;

/**
 * Writes an event for each row and adds its number to the bucket of its instant, so that the statistics
 * count what the list of events shows.
 *
 * Nothing is locked before an event gets its number, so `refused` takes the transaction id that readers of the stream
 * wait for, see `FinalMark`.
 *
 * **Locks** rows of buckets in the order (bucket, face), as every statement that adds does. **Atomic
 * because** it is one statement: an event and its number are both there, or neither is. **Index**: for each
 * row `lease_lease_id_key`, `lease_pkey` and `lease_event_lease_id_idx`. A grant that neither a row nor an event
 * knows any more makes no event and is not counted. The holder, the token and the actor are those of the grant's
 * own event: a forced revoke raises the token of the row.
 */
export async function recordRefusedRenewals(
  sql: Sql<'general'>,
  rows: readonly RefusedRow[],
): Promise<void> {
  await sql.$queryRaw<{ face: Face }[]>`
    with refused as materialized (
      select pg_current_xact_id(), r.face, r.lease_id, r.fencing_token, r.principal, r.reason, r.count,
        clock_timestamp() - r.first_age_ms * interval '1 millisecond' as at,
        clock_timestamp() - r.last_age_ms * interval '1 millisecond' as last_at
      from unnest(
        ${rows.map((row) => row.face)}::text[],
        ${rows.map((row) => row.leaseId)}::uuid[],
        ${rows.map((row) => row.fencingToken)}::bigint[],
        ${rows.map((row) => row.principal)}::text[],
        ${rows.map((row) => row.reason)}::text[],
        ${rows.map((row) => row.count)}::bigint[],
        ${rows.map((row) => row.firstAgeMs)}::float8[],
        ${rows.map((row) => row.lastAgeMs)}::float8[]
      ) as r (face, lease_id, fencing_token, principal, reason, count, first_age_ms, last_age_ms)
    ),
    fact as (
      insert into lease_event (
        at, face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select r.at, r.face, o.namespace, o.name, r.lease_id, o.fencing_token, 'renewal_refused', o.actor,
        r.reason,
        jsonb_strip_nulls(jsonb_build_object(
          'holder', o.holder, 'principal', r.principal, 'count', r.count,
          'lastAt', case when r.count > 1 then r.last_at end,
          'askedToken', case when r.fencing_token <> o.fencing_token then r.fencing_token::text end,
          'endedAt', case when r.reason = 'expired' and l.lease_id is not null then l.expires_at else e.at end,
          'nextHolder', n.holder, 'nextToken', n.fencing_token::text
        ))
      from refused r
      ${WHAT_IS_KNOWN}
      where o.name is not null
      order by r.at, r.lease_id
      returning id, at, face, (detail ->> 'count')::bigint as count
    ),
    listed as (
      insert into refused_renewal (at, event_id) select f.at, f.id from fact f
    )
    insert into stats_bucket as t (bucket_at, face, refused_renewals)
    select ${bucketOf(fragment`f.at`)}, f.face, sum(f.count)
    from fact f
    group by 1, 2
    order by 1, 2
    on conflict (bucket_at, face) do update set
      refused_renewals = t.refused_renewals + excluded.refused_renewals
    returning t.face`;
}

/** Removes the places of events that are not kept any more. Index: the primary key. @returns how many. */
export function removeOldRefusals(
  sql: Sql<'general'>,
  pass: RetentionPass,
  retentionDays: number,
): Promise<number> {
  return removeOld(sql, pass, 'refused renewals', {
    old: fragment`
      select r.at, r.event_id from refused_renewal r
      where r.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by r.at, r.event_id`,
    deletes: fragment`
      gone as (
        delete from refused_renewal r using old
        where r.at = old.at and r.event_id = old.event_id
        returning r.event_id
      )`,
  });
}

// Refused connects and acquires, until they are written with the statistics. Of each hour so many resources and codes are
// remembered, and fewer of one caller, so that nobody can fill the table; all others are in the metrics alone.

const HOUR_MS = 3_600_000;
const RESOURCES_MAX = 2_000;
const RESOURCES_OF_CALLER_MAX = 500;
/** Of a caller, also when others have filled the rest. */
const RESOURCES_OF_CALLER_MIN = 20;
const REASON_LENGTH_MAX = 500;
const ROWS_PER_STATEMENT_MAX = 500;

/** A refusal, and who is counted for it. */
export interface Refusal extends RefusedCall {
  readonly principal: string;
}

interface Noted {
  readonly last: RefusedCall;
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

export class Refusals {
  readonly #clock: Pick<Clock, 'nowMs'>;
  /** What is not written yet. */
  #open = new Map<string, Noted>();
  /** The resources and codes of this hour, by caller. */
  #known = new Map<string, Set<string>>();
  #knownCount = 0;
  #hourEndsAtMs = 0;

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  note({ principal, ...call }: Refusal): void {
    const key = JSON.stringify([call.face, call.namespace, call.name, call.code]);
    const nowMs = this.#clock.nowMs();
    if (!this.#isRemembered(principal, key, nowMs)) return;
    const last = { ...call, reason: call.reason.slice(0, REASON_LENGTH_MAX).toWellFormed() };
    const before = this.#open.get(key);
    const { firstMs = nowMs, count = 0 } = before ?? {};
    this.#open.set(key, { last, firstMs, lastMs: nowMs, count: count + 1 });
  }

  /** Writes what was noted. What did not arrive is written the next time, unless it is unknown whether it did. */
  async flush({ general }: Pick<Store, 'general'>): Promise<void> {
    while (this.#open.size > 0) {
      const taken = [...this.#open].slice(0, ROWS_PER_STATEMENT_MAX);
      for (const [key] of taken) this.#open.delete(key);
      try {
        const nowMs = this.#clock.nowMs();
        await recordRefusals(
          general,
          taken.map(([, noted]) => rowOf(noted, nowMs)),
        );
      } catch (error) {
        if (databaseFailureOf(error) !== 'lost') this.#putBack(taken);
        throw error;
      }
    }
  }

  #isRemembered(principal: string, key: string, nowMs: number): boolean {
    if (nowMs >= this.#hourEndsAtMs) {
      this.#known = new Map();
      this.#knownCount = 0;
      this.#hourEndsAtMs = nowMs + HOUR_MS;
    }
    const own = this.#known.get(principal) ?? new Set();
    if (own.has(key)) return true;
    const most =
      this.#knownCount < RESOURCES_MAX ? RESOURCES_OF_CALLER_MAX : RESOURCES_OF_CALLER_MIN;
    if (own.size >= most) return false;
    this.#known.set(principal, own.add(key));
    this.#knownCount += 1;
    return true;
  }

  #putBack(taken: readonly [string, Noted][]): void {
    for (const [key, noted] of taken) {
      const since = this.#open.get(key);
      const later = since ?? noted;
      const count = noted.count + (since?.count ?? 0);
      this.#open.set(key, { ...later, count, firstMs: noted.firstMs });
    }
  }
}

function rowOf({ last, count, firstMs, lastMs }: Noted, nowMs: number): RefusalRow {
  return { ...last, count, firstAgeMs: nowMs - firstMs, lastAgeMs: nowMs - lastMs };
}
