import type { GrantRef } from '../../kernel/lease.ts';
import type { Named, Resource } from '../../kernel/resource.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { expiryBelieved } from '../../postgres/clock/expiry.ts';
import { C, type Fragment, fragment, NO_FRAGMENT, onlyRow, type Sql } from '../../postgres/sql.ts';
import { EXPIRE_LOCKED } from './facts.ts';

export interface ReapedGrant extends Resource {
  readonly leaseId: string;
  /** How long after its expiry the grant was ended, in milliseconds. */
  readonly lagMs: number;
}

/** How many pages the lease table has now, and the moment, in epoch milliseconds. */
export async function readLeasePages(
  sql: Sql<'general'>,
): Promise<{ pages: number; asOf: number }> {
  return onlyRow(
    await sql.$queryRaw<{ pages: number; asOf: number }[]>`
      select (pg_relation_size('lease') / current_setting('block_size')::int)::int as pages,
        extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`,
  );
}

/**
 * Ends the grants that have expired and that nobody has ended, in a range of the table's pages, at
 * most `limit` of them, and writes the one `expired` event of each.
 *
 * - **Why by pages**: an index on `expires_at` would end HOT updates, on which the cost of renewals
 *   rests; a queue of due times would be written as often as the table. Reading the table page by
 *   page needs neither, and the range bounds what one pass may cost. Nothing waits for the reaper:
 *   a grant that has expired is taken over without it.
 * - **Reads the clock once to choose**, not for each of a few hundred thousand rows: a grant that had
 *   expired by then is still expired when it is judged.
 * - **Ends only what is believed to have expired**, see `expiry.ts`.
 * - **Locks first, judges then**, skipping locked rows: they are being renewed, released or taken
 *   over. Two reapers never end the same grant: the second finds it locked or ended.
 */
export async function reap(
  sql: Sql<'general'>,
  range: { fromPage: number; toPage: number; limit: number; belief: ClockBelief },
): Promise<ReapedGrant[]> {
  return sql.$queryRaw<ReapedGrant[]>`
    with locked as materialized (
      select l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at
      from lease l
      where l.ctid >= ${`(${String(range.fromPage)},0)`}::tid
        and l.ctid < ${`(${String(range.toPage)},0)`}::tid
        and l.end_reason is null and l.released_at is null and l.expires_at <= (select clock_timestamp())
        and ${expiryBelieved(range.belief)}
      limit ${range.limit}
      for no key update of l skip locked
    ),
    ${EXPIRE_LOCKED}
    select x.lease_id as "leaseId", x.face, x.namespace, x.name,
      extract(epoch from clock_timestamp() - x.expires_at)::float8 * 1000 as "lagMs"
    from expired x`;
}

/** A namespace, joined, with its children or without. */
export interface NamespaceRange {
  readonly namespace: string;
  readonly includeChildren: boolean;
}

/** A place in the order of the primary key. */
export type LeasePlace = Named;

export interface StalePage {
  /** How many grants this page ended. */
  readonly endedCount: number;
  /** The last lease that was read; null when the page was empty. */
  readonly last: LeasePlace | null;
  /** How many leases were read. */
  readonly readCount: number;
}

/**
 * Ends the grants of a namespace that have expired and that nobody has ended, among the next `limit`
 * leases after a place, and writes the facts of each.
 *
 * - **Index**: the primary key, from the place on. In its collation the children of `a` lie between
 *   `a.` and `a/`; what lies between `a` and `a.` is passed over.
 * - **Locks first, judges then**, skipping locked rows: they are being renewed, released or taken
 *   over. Two reapers never end the same grant: the second finds it locked or ended.
 * - **Ends only what is believed to have expired**, see `expiry.ts`.
 */
export async function endStale(
  sql: Sql<'transitions'>,
  range: NamespaceRange,
  page: {
    readonly after: LeasePlace | undefined;
    readonly limit: number;
    readonly belief: ClockBelief;
  },
): Promise<StalePage> {
  const { namespace, includeChildren } = range;
  const upperBound = namespace === '' ? null : `${namespace}/`;
  const rows = await sql.$queryRaw<
    {
      endedCount: number;
      readCount: number;
      lastNamespace: string | null;
      lastName: string | null;
    }[]
  >`
    with page as materialized (
      select l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at
      from lease l
      where l.face = 'lease'
        and (l.namespace, l.name)
          > (${page.after?.namespace ?? namespace} collate "C", ${page.after?.name ?? ''} collate "C")
        and (${upperBound}::text is null or l.namespace < ${upperBound} collate "C")
        and (l.namespace = ${namespace} or (${includeChildren}
          and (${namespace} = '' or starts_with(l.namespace, ${`${namespace}.`}))))
      order by l.namespace, l.name
      limit ${page.limit}
    ),
    locked as materialized (
      select l.lease_id, l.released_at, l.end_reason, l.expires_at
      from page p
      join lease l on l.lease_id = p.lease_id
      where p.end_reason is null and p.released_at is null
        and p.expires_at <= (select clock_timestamp())
        and ${expiryBelieved(page.belief)}
      order by l.namespace, l.name
      for no key update of l skip locked
    ),
    ${EXPIRE_LOCKED},
    last as (
      select p.namespace, p.name from page p order by p.namespace desc, p.name desc limit 1
    )
    select
      (select count(*)::int from expired) as "endedCount",
      (select count(*)::int from page) as "readCount",
      (select t.namespace from last t) as "lastNamespace",
      (select t.name from last t) as "lastName"`;
  const { endedCount, readCount, lastNamespace, lastName } = onlyRow(rows);
  const isEmpty = lastNamespace === null || lastName === null;
  return {
    endedCount,
    readCount,
    last: isEmpty ? null : { namespace: lastNamespace, name: lastName },
  };
}

/** An expired grant whose use case has not been called. */
type ReapRow = GrantRef & Named;

/**
 * Which callbacks a page is of: those that were never tried, about oldest first, or those that have failed and
 * are due again, the longest due first. They are apart so that many that fail delay no other.
 */
type ReapKind = 'untried' | 'failed';

const DUE: Readonly<Record<ReapKind, { readonly condition: Fragment; readonly place: Fragment }>> =
  {
    untried: { condition: fragment`p.attempts = 0`, place: fragment`p.expired_at` },
    failed: {
      condition: fragment`p.attempts > 0 and p.next_attempt_at <= clock_timestamp()`,
      place: fragment`p.next_attempt_at`,
    },
  };

/**
 * The ids of expired grants in these namespaces whose callback is due, at most `limit`, without those that were
 * `seen` before. A plain read: {@link claimReapRow} decides. **Index**:
 * `lease_reap_namespace_idx`, in whose collation the children of `a` lie between `a.` and `a/`;
 * `lease_reap_expired_at_idx` for everything below the root. Unclaimed rows of other namespaces are not read.
 */
export async function listReapRows(
  sql: Sql<'transitions'>,
  ranges: readonly NamespaceRange[],
  page: { readonly kind: ReapKind; readonly seen: readonly string[]; readonly limit: number },
): Promise<string[]> {
  const { condition, place } = DUE[page.kind];
  const due = fragment`p.face = 'lease' and ${condition} and p.lease_id <> all (${page.seen}::uuid[])`;
  // Of those that were never tried, the index has each child's in order, not those of all children.
  const orderOfChildren = page.kind === 'failed' ? fragment`order by ${place}` : NO_FRAGMENT;
  const rows = await sql.$queryRaw<{ leaseId: string }[]>`
    select r.lease_id::text as "leaseId"
    from (
      select distinct p.lease_id, p.place
      from unnest(
        ${ranges.map((range) => range.namespace)}::text[],
        ${ranges.map((range) => range.includeChildren)}::boolean[]
      ) as n (namespace, has_children)
      cross join lateral (
        (
          select p.lease_id, ${place} as place from lease_reap p
          where p.namespace = n.namespace ${C} and ${due}
          order by ${place}
          limit ${page.limit}
        )
        union all
        (
          select p.lease_id, ${place} as place from lease_reap p
          where n.has_children and n.namespace <> '' and ${due}
            and p.namespace >= (n.namespace || '.') ${C} and p.namespace < (n.namespace || '/') ${C}
          ${orderOfChildren}
          limit ${page.limit}
        )
        union all
        (
          select p.lease_id, ${place} as place from lease_reap p
          where n.has_children and n.namespace = '' and p.namespace <> '' and ${due}
          order by ${place}
          limit ${page.limit}
        )
      ) p
    ) r
    order by r.place, r.lease_id
    limit ${page.limit}`;
  return rows.map((row) => row.leaseId);
}

/**
 * Locks one of these rows for its callback, until the transaction ends. Undefined: it was called
 * meanwhile, is being called, or is to be called later. **Index**: the primary key.
 */
export async function claimReapRow(
  sql: Sql<'guests'>,
  leaseId: string,
): Promise<ReapRow | undefined> {
  const rows = await sql.$queryRaw<ReapRow[]>`
    select p.lease_id::text as "leaseId", p.namespace, p.name, p.fencing_token::text as "fencingToken"
    from lease_reap p
    where p.lease_id = ${leaseId}::uuid
      and (p.next_attempt_at is null or p.next_attempt_at <= clock_timestamp())
    for update of p skip locked`;
  return rows[0];
}

/** Removes a row whose callback ran in the same transaction. */
export async function deleteReapRow(sql: Sql<'guests'>, leaseId: string): Promise<void> {
  await sql.$queryRaw`
    delete from lease_reap p where p.lease_id = ${leaseId}::uuid returning p.lease_id::text`;
}

/**
 * Notes that a callback failed: its row is due again after a second, twice as long after each further
 * failure, a minute at most. Skips a row that is locked: another reaper is calling it by now.
 */
export async function recordReapFailure(
  sql: Sql<'general'>,
  leaseId: string,
  lastError: string,
): Promise<void> {
  await sql.$queryRaw`
    with failed as materialized (
      select p.lease_id from lease_reap p
      where p.lease_id = ${leaseId}::uuid
      for update of p skip locked
    )
    update lease_reap p
    set attempts = p.attempts + 1,
        next_attempt_at = clock_timestamp()
          + least(60, power(2, least(p.attempts, 6))) * interval '1 second',
        last_error = ${lastError}
    from failed f
    where p.lease_id = f.lease_id
    returning p.lease_id::text`;
}
