/**
 * One page of resources, whatever their face. By name, rows come out of the primary key in order, and
 * reading ends where the page does. Any other order, and any filter that the primary key does not
 * cover, is read in one of two ways:
 *
 *  - a look at the next few thousand rows in the order of names: most filters that people use, such as
 *    held resources, leave enough of them to fill a page;
 *  - where they do not, a scan of all rows that the filter may leave, which keeps only the page's rows.
 *
 * The planner is not asked to choose between the two: it assumes evenly spread rows, and for a filter
 * that leaves little it walked the whole primary key, row by row, until the statement was cancelled.
 * A part of a name is looked for in the table of names (below) instead of by that scan, if it is rare.
 *
 * `expires_at` has no index, and gets none: renewals write it, and must stay HOT.
 */
import type { TerminationReason } from '../../kernel/backends.ts';
import type { Count, FilterOf, GrantListInput, WaiterView } from '../../kernel/face-types.ts';
import type { LeaseRow, SlotMode } from '../../kernel/lease.ts';
import { LIMITS } from '../../kernel/limits.ts';
import { type Face, RESERVED_NAMESPACE, type Resource } from '../../kernel/resource.ts';
import { boundedCount } from '../../postgres/paging.ts';
import {
  C,
  type Fragment,
  fragment,
  joinFragments,
  LEASE_COLUMNS,
  NO_FRAGMENT,
  type Sql,
} from '../../postgres/sql.ts';
import {
  endedWithin,
  IS_CONDITIONS,
  IS_SHOWN,
  type LeaseOrder,
  orderOf,
  PHASE_CONDITIONS,
  placeOf,
  scanOrderOf,
  withinLimits,
  withinNamespace,
} from './lease-order.ts';

/** Which resources are asked for. */
export interface ResourceFilter extends Omit<FilterOf<GrantListInput>, 'includeChildren'> {
  readonly includeChildren: boolean;
  /** A key's tag; the action that an environment is leased for. */
  readonly tag?: string | undefined;
  /** Only keys whose backend runs on this drone, or ran there last. */
  readonly droneId?: string | undefined;
  /** Only what is at home in this datacenter: a key that was moved leaves a sealed row behind. */
  readonly livesIn?: string | undefined;
  /** Namespaces, children included, that the caller is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

/** What a face shows besides the row and its waiters; the row's alias is `l`. */
interface ResourceColumns {
  readonly columns: Fragment;
  readonly joins: Fragment;
  /** Ends a page before its number of rows is reached. Rows then have `isOnPage`: false after its end. */
  readonly narrow?: (cut: Fragment) => Fragment;
}

/** The name of a row as people know it: that of a slot in a pool is the pool's. */
const SCOPE = fragment`coalesce(l.pool, l.name)`;

/** How many rows are read before all are scanned: this takes some milliseconds. */
const NEAR_ROWS_MAX = 2_000;
/** How many are read for a part of a name that many names have: this takes some 100 ms. */
const FAR_ROWS_MAX = 50_000;

/**
 * Reads a page. Pages by the values of the last row, not by a count, so that it stays stable while
 * resources come and go. Locks nothing. Index: `lease_pkey`, `lease_lease_id_key` for one grant and
 * `backend_drone_id_status_rank_idx` for a drone; no row means that nothing is left.
 */
async function listResources<Row extends LeaseRow & { readonly isOnPage?: boolean }>(
  sql: Sql<'reads'>,
  face: Face,
  { filter, order }: { readonly filter: ResourceFilter; readonly order: LeaseOrder },
  shown: ResourceColumns,
): Promise<Row[]> {
  const ofFace = fragment`l.face = ${face} ${C} and ${rangeOf(filter)} and ${placeOf(order)}`;
  const way = order.by === 'name' ? wayOf(filter) : 'scan';
  const next = (count: number): Fragment =>
    inRanges(
      filter,
      (names) => fragment`
      select l.* from lease l
      where ${ofFace} and ${names}
      order by ${orderOf(order)}
      limit ${count}`,
    );
  if (way === 'walk') {
    return pageOfRows(sql, { cut: cutOf(next(order.limit), order), order, shown });
  }
  const wanted = othersOf(filter);
  const lookAt = (count: number): Promise<Row[]> =>
    pageOfRows(sql, { cut: cutOf(fragment`${next(count)} where ${wanted}`, order), order, shown });
  const isWhole = (page: readonly Row[]): boolean =>
    page.length === order.limit || page.at(-1)?.isOnPage === false;
  if (way === 'look') {
    const near = await lookAt(NEAR_ROWS_MAX);
    if (isWhole(near)) return near;
  }
  const rare = await rareNames(sql, face, filter);
  if (way === 'look' && filter.contains !== undefined && rare === undefined) {
    // Many names contain it: where they are not the next ones, they are soon.
    const far = await lookAt(FAR_ROWS_MAX);
    if (isWhole(far)) return far;
  }
  const all = fragment`
    select l.* from ${rare ?? inRanges(filter, (names) => fragment`select l.* from lease l where ${names}`)}
    where ${ofFace} and ${wanted}
    order by ${scanOrderOf(order)}
    limit ${order.limit}`;
  return pageOfRows(sql, { cut: all, order, shown });
}

/**
 * How rows are found in the order of names: by walking the primary key where it alone finds them, by
 * a look at the next ones where most filters that people use leave enough of them, or by a scan.
 */
function wayOf(filter: ResourceFilter): 'walk' | 'look' | 'scan' {
  const { namespace, includeChildren, name, prefix, contains, namespaces } = filter;
  const isOneNamespace = namespace !== undefined && !includeChildren;
  // No index gives the order of several ranges together.
  if (!isOneNamespace && namespaces !== null && namespaces.length > 1) return 'scan';
  const { leaseId, droneId, is } = filter;
  // Few rows are left, wherever they are.
  if ([leaseId, droneId, is].some((asked) => asked !== undefined)) return 'scan';
  const isNamed = name !== undefined || prefix !== undefined;
  const { phase, endedWithinMs, holder, tag } = filter;
  const isOfRows = [phase, endedWithinMs, holder, tag, contains].some(
    (asked) => asked !== undefined,
  );
  if (!isOfRows && (isOneNamespace || !isNamed)) return 'walk';
  return name === undefined ? 'look' : 'scan';
}

/** What the primary key may find by itself. */
function rangeOf(filter: ResourceFilter): Fragment {
  const { namespace, includeChildren, livesIn } = filter;
  const conditions = [withinLimits(filter.namespaces), IS_SHOWN];
  if (filter.withoutOwn === true) {
    conditions.push(fragment`l.namespace <> ${RESERVED_NAMESPACE} ${C}`);
  }
  if (livesIn !== undefined) {
    conditions.push(
      fragment`(l.home_reservation is null or starts_with(l.home_reservation, ${`${livesIn}.`} ${C}))`,
    );
  }
  if (namespace !== undefined) {
    conditions.push(
      includeChildren ? withinNamespace(namespace) : fragment`l.namespace = ${namespace} ${C}`,
    );
  }
  return joinFragments(conditions, ' and ');
}

/** The conditions that only the rows themselves answer. */
function othersOf(filter: ResourceFilter): Fragment {
  const { name, prefix, contains, phase, endedWithinMs, holder, tag, droneId, leaseId } = filter;
  const conditions = [nameConditionOf(name, prefix)];
  if (filter.is !== undefined) conditions.push(IS_CONDITIONS[filter.is]);
  if (holder !== undefined) conditions.push(fragment`l.holder = ${holder}`);
  if (tag !== undefined) conditions.push(fragment`l.tag = ${tag}`);
  if (phase !== undefined) conditions.push(PHASE_CONDITIONS[phase]);
  if (endedWithinMs !== undefined) conditions.push(endedWithin(endedWithinMs));
  if (contains !== undefined) {
    conditions.push(containsText(contains, fragment`l.namespace`, SCOPE));
  }
  if (leaseId !== undefined) conditions.push(fragment`l.lease_id = ${leaseId}::uuid`);
  if (droneId !== undefined) {
    conditions.push(
      fragment`l.lease_id in (select b.lease_id from backend b where b.drone_id = ${droneId} ${C})`,
    );
  }
  return joinFragments(conditions, ' and ');
}

/**
 * The resources whose names contain what is asked for, if few names do: the index of names finds them, and the
 * primary key each row. Undefined where many do, or the row is found by something else.
 */
async function rareNames(
  sql: Sql<'reads'>,
  face: Face,
  { contains, leaseId, droneId }: ResourceFilter,
): Promise<Fragment | undefined> {
  if (contains === undefined || leaseId !== undefined || droneId !== undefined) return undefined;
  if (!(await isRareName(sql, contains))) return undefined;
  const rowsNamed = (names: Fragment): Fragment => fragment`
    select l.* from lease l
    where l.face = ${face} ${C} and l.namespace = k.namespace and ${names}`;
  return fragment`(${namesWith(contains, face)}) k
    cross join lateral (
      (${rowsNamed(fragment`l.name = k.name`)} limit 1)
      union all (${rowsNamed(fragment`l.name > k.name || chr(31) and l.name < k.name || ' '`)})
      union all (${rowsNamed(fragment`l.name > chr(31) ${C} and l.name < ' ' ${C} and l.pool = k.name`)})
    ) l`;
}

function nameConditionOf(name: string | undefined, prefix: string | undefined): Fragment {
  const conditions = [fragment`true`];
  if (name !== undefined) {
    conditions.push(fragment`(l.name = ${name} ${C} or l.pool = ${name} ${C})`);
  }
  if (prefix !== undefined) conditions.push(fragment`starts_with(${SCOPE}, ${prefix})`);
  return joinFragments(conditions, ' and ');
}

/**
 * The rows `l` of a select that may have the names that are asked for, by the primary key. In one namespace, between a
 * name and the same with a space are only the slots of its pool, and where all keys have a limit together the slots are
 * the first of the namespace. Elsewhere a name does not show where its row is.
 */
function inRanges(
  { namespace, includeChildren, name, prefix }: ResourceFilter,
  select: (names: Fragment) => Fragment,
): Fragment {
  const isNamed = name !== undefined || (prefix ?? '') !== '';
  if (namespace === undefined || includeChildren || !isNamed) {
    return fragment`(${select(fragment`true`)}) l`;
  }
  const wanted = fragment`l.namespace = ${namespace} ${C} and ${nameConditionOf(name, prefix)}`;
  const beside =
    name === undefined
      ? fragment`starts_with(l.name, ${prefix})`
      : fragment`l.name >= ${name} ${C} and l.name < ${`${name} `} ${C}`;
  const together = fragment`l.name > chr(31) ${C} and l.name < ' ' ${C}`;
  const either = [beside, together].map((range) => select(fragment`${range} and ${wanted}`));
  return fragment`(${joinFragments(
    either.map((one) => fragment`(${one})`),
    ' union all ',
  )}) l`;
}

function cutOf(from: Fragment, order: LeaseOrder): Fragment {
  return fragment`select l.* from ${from} order by ${orderOf(order)} limit ${order.limit}`;
}

/**
 * The rows of a page, with what is shown of each. The page is cut before anything is added to its
 * rows: with a million of them that is the difference between half a second and a statement that is
 * cancelled. Index: `lease_waiter_resource_idx`, and that of the joins.
 */
async function pageOfRows<Row>(
  sql: Sql<'reads'>,
  page: {
    readonly cut: Fragment;
    readonly order: LeaseOrder;
    readonly shown: ResourceColumns;
  },
): Promise<Row[]> {
  const { cut, order, shown } = page;
  return sql.$queryRaw<Row[]>`
    select ${LEASE_COLUMNS}, ${shown.columns},
      (
        select count(*)::int from lease_waiter w
        where w.face = l.face and w.namespace = l.namespace and w.name = coalesce(l.pool, l.name)
          and w.valid_until > clock_timestamp()
      ) as waiters
    from (${shown.narrow?.(cut) ?? cut}) l
    ${shown.joins}
    order by ${orderOf(order)}`;
}

/** A key as a list shows it. */
export interface KeyRow extends LeaseRow {
  readonly backendId: string | null;
  readonly backendStatus: string | null;
  readonly backendReason: string | null;
  readonly exitCode: number | null;
  readonly wasReady: boolean | null;
  readonly droneId: string | null;
  readonly reservationId: string | null;
  readonly waiters: number;
  /** Backends that have failed one after another. Instants are milliseconds of the database's clock. */
  readonly failing: {
    readonly failures: number;
    readonly since: number;
    readonly failedAt: number;
    readonly startAt: number;
    readonly backendId: string;
    readonly reason: TerminationReason | null;
    readonly exitCode: number | null;
  } | null;
}

/**
 * Its backend, found by `backend_lease_id_key`, and the failures of its last ones by `key_failure_pkey`: none are shown of
 * a key whose backend has been ready for a minute.
 */
const SHOWN = {
  columns: fragment`b.id as "backendId", b.status as "backendStatus", b.drone_id as "droneId",
    b.reason as "backendReason", b.exit_code as "exitCode", b.address is not null as "wasReady",
    l.home_reservation as "reservationId",
    case when f.name is not null then jsonb_build_object(
      'failures', f.failures, 'since', extract(epoch from f.since)::float8 * 1000,
      'failedAt', extract(epoch from f.failed_at)::float8 * 1000, 'startAt', extract(epoch from f.start_at)::float8 * 1000,
      'backendId', f.backend_id, 'reason', e.reason, 'exitCode', e.exit_code
    ) end as failing`,
  joins: fragment`left join backend b on b.lease_id = l.lease_id
    left join key_failure f on f.namespace = l.namespace and f.name = l.name
      and (b.status = 'ready' and b.status_at < clock_timestamp() - interval '1 minute') is not true
    left join backend e on e.id = f.backend_id`,
};

/** Reads a page of keys, as {@link listResources} does. */
export async function listKeys(
  sql: Sql<'reads'>,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<KeyRow[]> {
  return listResources<KeyRow>(sql, 'key', { filter, order }, SHOWN);
}

/** A lease or an environment as a list shows it. */
export interface ListedLease extends LeaseRow {
  readonly metadata: unknown;
  readonly waiters: number;
  /** The scope that it is a slot of, and how it is held; null for a lease that one holds at a time. */
  readonly pool: string | null;
  readonly mode: SlotMode | null;
  /** False for the row after a page that its bytes ended: it lacks metadata, and begins the next page. */
  readonly isOnPage: boolean;
}

/** What a lease that is shown has besides {@link LEASE_COLUMNS} and its metadata; the table's alias must be `l`. */
export const SHOWN_LEASE_COLUMNS = fragment`l.pool, l.mode`;

/** A page ends with the row whose metadata makes it reach this many bytes. */
const METADATA_BYTES_MAX = 512 * 1_024;

/**
 * Ends a page where its metadata reaches {@link METADATA_BYTES_MAX}: one row after it is read, so that
 * the page is known not to be the last. Sizes are estimated without reading the values: a compressed
 * value counts as the largest that is allowed. Decompressing 500 values of 16 KB costs more than the
 * rest of the page.
 */
function shownIn(order: LeaseOrder): ResourceColumns {
  const bytes = fragment`
    case when pg_column_compression(l.metadata) is null then coalesce(pg_column_size(l.metadata), 0)
    else ${LIMITS.metadataBytesMax}::int end`;
  const bytesUpTo = (end: Fragment): Fragment => fragment`
    coalesce(sum(${bytes}) over (order by ${orderOf(order)} rows between unbounded preceding and ${end}), 0)`;
  const isOnPage = fragment`l.bytes_before < ${METADATA_BYTES_MAX}::int`;
  return {
    columns: fragment`${SHOWN_LEASE_COLUMNS},
      case when ${isOnPage} then l.metadata end as metadata, ${isOnPage} as "isOnPage"`,
    joins: NO_FRAGMENT,
    narrow: (cut) => fragment`
      select l.*
      from (
        select l.*, ${bytesUpTo(fragment`1 preceding`)} as bytes_before,
          ${bytesUpTo(fragment`2 preceding`)} as bytes_before_previous
        from (${cut}) l
      ) l
      where l.bytes_before_previous < ${METADATA_BYTES_MAX}::int`,
  };
}

/** Reads a page of leases or environments, as {@link listResources} does. */
export async function listLeases(
  sql: Sql<'reads'>,
  face: Face,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<ListedLease[]> {
  return listResources<ListedLease>(sql, face, { filter, order }, shownIn(order));
}

/**
 * How many resources all pages of a list have together, up to a bound. Index: as for a page. Names that many
 * resources have a part of are compared one by one, so only the first ones are; where there are more, the
 * count reports it.
 */
export async function countResources(
  sql: Sql<'reads'>,
  face: Face,
  filter: ResourceFilter,
): Promise<Count> {
  const range = fragment`l.face = ${face} ${C} and ${rangeOf(filter)}`;
  const named = inRanges(filter, (names) => fragment`select l.* from lease l where ${names}`);
  const wanted = othersOf(filter);
  const rare = await rareNames(sql, face, filter);
  const isFew = filter.leaseId !== undefined || filter.droneId !== undefined;
  if (rare !== undefined || filter.contains === undefined || isFew) {
    return boundedCount(sql, fragment`${rare ?? named} where ${range} and ${wanted}`);
  }
  const [row] = await sql.$queryRaw<{ count: number; isWhole: boolean }[]>`
    select count(*) filter (where ${wanted})::int as count, count(*) <= ${FAR_ROWS_MAX} as "isWhole"
    from (select l.* from ${named} where ${range} limit ${FAR_ROWS_MAX + 1}) l`;
  return { count: row?.count ?? 0, isExact: row?.isWhole === true };
}

/** A namespace with how many of its resources, children's included, are in each phase. */
export interface NamespaceCounts {
  readonly namespace: string;
  readonly held: number;
  readonly expiring: number;
  readonly expired: number;
  readonly free: number;
  readonly waiters: number;
}

/**
 * Counts the resources in and below each namespace, from `namespace` downwards, nearest first: the limit
 * cuts off deep ones, never a whole branch. Counts and shows only what is within the caller's limits.
 *
 * Reads each resource of the face once and adds up by namespace before it looks at ancestors.
 * Index: the primary key, for `namespace`; the root reads the face's whole part of the table.
 */
export async function countByNamespace(
  sql: Sql<'reads'>,
  face: Face,
  which: {
    readonly namespace: string;
    readonly namespaces: readonly string[] | null;
    readonly withoutOwn?: boolean;
    readonly limit: number;
  },
): Promise<NamespaceCounts[]> {
  const { namespace, namespaces, withoutOwn, limit } = which;
  const asked = (column: Fragment): Fragment =>
    withoutOwn === true ? fragment`${column} <> ${RESERVED_NAMESPACE} ${C}` : fragment`true`;
  const waiterColumn = fragment`w.namespace`;
  const depth = namespace === '' ? 0 : namespace.split('.').length;
  return sql.$queryRaw<NamespaceCounts[]>`
    with own as materialized (
      select l.namespace,
        count(*) filter (where ${PHASE_CONDITIONS.held}) as held,
        count(*) filter (where ${PHASE_CONDITIONS.expiring}) as expiring,
        count(*) filter (where ${PHASE_CONDITIONS.expired}) as expired,
        count(*) filter (where ${PHASE_CONDITIONS.free}) as free,
        0 as waiters
      from lease l
      where l.face = ${face} ${C} and ${withinNamespace(namespace)} and ${withinLimits(namespaces)}
        and ${asked(fragment`l.namespace`)} and ${IS_SHOWN}
      group by l.namespace
      union all
      select w.namespace, 0, 0, 0, 0, count(*)
      from lease_waiter w
      where w.face = ${face} ${C} and w.valid_until > clock_timestamp()
        and ${withinNamespace(namespace, waiterColumn)} and ${withinLimits(namespaces, waiterColumn)}
        and ${asked(waiterColumn)}
      group by w.namespace
    )
    select n.ancestor as namespace,
      sum(o.held)::int as held, sum(o.expiring)::int as expiring, sum(o.expired)::int as expired,
      sum(o.free)::int as free, sum(o.waiters)::int as waiters
    from own o
    cross join lateral (
      select array_to_string((string_to_array(o.namespace, '.'))[1:i], '.') ${C} as ancestor
      from generate_series(${depth}::int, cardinality(string_to_array(o.namespace, '.'))) as i
    ) n
    where ${withinLimits(namespaces, fragment`n.ancestor`)}
    group by n.ancestor
    order by cardinality(string_to_array(n.ancestor, '.')), n.ancestor
    limit ${limit}`;
}

/**
 * How names are found by any part of them. `search_name` has the names as they are printed, folded;
 * `search_name_grams_idx` has their trigrams. A bitmap of half a million names would take longer than
 * a person waits, so a search first looks at some pages of the table, spread evenly. What many names
 * contain is found there, often enough; only for what is rare the index is asked.
 */

/** Pages of `search_name` that a look reads at most, and half as many at least: some 5,000 names. */
const LOOK_PAGES = 96;
const PAGE_BYTES = 8_192;
/** With fewer matches among those names, a text is in no more than one or two of a hundred names. */
export const LOOK_MATCHES_MIN = 50;
/** The newest events that are read for names that are not filled yet: a second of heavy use. */
const NEW_EVENTS_MAX = 10_000;

/** A text as names are compared with it. */
export function foldedOf(text: string): Fragment {
  return fragment`search_folded(${text})`;
}

/** Whether the printed name of a row contains a text, whatever its case. */
export function containsText(text: string, namespace: Fragment, name: Fragment): Fragment {
  return fragment`strpos(search_text(${namespace}, ${name}), ${foldedOf(text)}) > 0`;
}

/** Whether a look reads the whole table of names. Asked once, not for each row. */
export const IS_ALL_SEEN = fragment`(
  (select pg_relation_size('search_name'::regclass)) <= ${LOOK_PAGES * PAGE_BYTES}::bigint)`;

/**
 * Some pages of the names, the same ones each time: a share that is a power of two, so that it changes
 * seldom while the table grows. The alias is `n`.
 */
export const SOME_NAMES = fragment`search_name n tablesample system ((
    100 * least(1, power(2, floor(ln(
      ${LOOK_PAGES * PAGE_BYTES}::float8 / greatest(pg_relation_size('search_name'::regclass), 1)
    ) / ln(2))))
  )::real) repeatable (0)`;

/** Whether a name has all pieces of a text; at the beginning of a word. Index: `search_name_grams_idx`. */
export function hasPieces(text: string, where: 'anywhere' | 'word'): Fragment {
  return fragment`search_grams(n.text) @@ search_query(${foldedOf(text)}, ${where === 'word'}::boolean)`;
}

/** Names of the newest grants, which may not be filled yet. The alias is `v`. Index: the events' key. */
export const NEW_NAMES = fragment`(
    select v.face, v.namespace, v.name
    from (
      select v.face, v.namespace, v.name, v.kind
      from lease_event v
      where v.id > (select m.through_id from search_mark m where m.part = 'events')
      order by v.id desc
      limit ${NEW_EVENTS_MAX}
    ) v
    where v.kind in ('granted', 'taken_over')
    group by v.face, v.namespace, v.name
  ) v`;

/**
 * The names of a face that contain a text, for a text that is rare: a look has found few. The columns are
 * `namespace` and `name`.
 */
function namesWith(text: string, face: string): Fragment {
  return fragment`
    select n.namespace, n.name
    from search_name n
    where ${hasPieces(text, 'anywhere')} and strpos(n.text, ${foldedOf(text)}) > 0
      and n.kind = ${face} ${C}
    union
    select v.namespace, v.name
    from ${NEW_NAMES}
    where v.face = ${face} and ${containsText(text, fragment`v.namespace`, fragment`v.name`)}`;
}

/**
 * Whether the index of names finds all names with a text, and few of them: a look has found few, and the names
 * of resources that were there before have been filled.
 */
async function isRareName(sql: Sql<'reads'>, text: string): Promise<boolean> {
  const [row] = await sql.$queryRaw<{ count: number; isFilled: boolean }[]>`
    select count(*)::int as count, ${ARE_NAMES_FILLED} as "isFilled"
    from ${SOME_NAMES}
    where strpos(n.text, ${foldedOf(text)}) > 0`;
  return row?.isFilled === true && row.count < LOOK_MATCHES_MIN;
}

/** Whether the names of everything that was there before are filled. */
export const ARE_NAMES_FILLED = fragment`(
  select bool_and(m.walked_at is not null) from search_mark m where m.part in ('leases', 'backends'))`;

interface WaiterRow extends Omit<WaiterView, 'since'> {
  readonly id: string;
  readonly createdAt: number;
}

/** The waiters of a resource, first in line first. Index: `lease_waiter_resource_idx`. */
export async function readWaiters(
  sql: Sql<'reads'>,
  resource: Resource,
  page: { readonly afterId: string | null; readonly limit: number },
): Promise<WaiterRow[]> {
  return sql.$queryRaw<WaiterRow[]>`
    select w.id::text as id, w.ticket_id as "ticketId", w.waiter,
      extract(epoch from w.created_at)::float8 * 1000 as "createdAt",
      extract(epoch from clock_timestamp() - w.created_at)::float8 * 1000 as "waitedMs"
    from lease_waiter w
    where w.face = ${resource.face} ${C} and w.namespace = ${resource.namespace} ${C}
      and w.name = ${resource.name} ${C} and w.valid_until > clock_timestamp()
      and (${page.afterId}::bigint is null or w.id > ${page.afterId}::bigint)
    order by w.id
    limit ${page.limit}`;
}
