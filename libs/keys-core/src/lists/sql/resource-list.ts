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
 * A part of a name is looked for in the table of names (`names.ts`) instead of by that scan, if it is rare.
 *
 * `expires_at` has no index, and gets none: renewals write it, and must stay HOT.
 */
import type { FilterOf, GrantListInput } from '../../kernel/face-types.ts';
import type { LeaseRow } from '../../kernel/lease/lease.ts';
import { RESERVED_NAMESPACE, type Face } from '../../kernel/resource/resource.ts';
import {
  IS_CONDITIONS,
  PHASE_CONDITIONS,
  endedWithin,
  orderOf,
  placeOf,
  scanOrderOf,
  withinLimits,
  withinNamespace,
  type LeaseOrder,
} from './lease-order.ts';
import { containsText, isRareName, namesWith } from './names.ts';
import {
  C,
  type Fragment,
  fragment,
  joinFragments,
  LEASE_COLUMNS,
  type Sql,
} from '../../postgres/sql.ts';

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
export interface ResourceColumns {
  readonly columns: Fragment;
  readonly joins: Fragment;
  /** Ends a page before its number of rows is reached. Rows then have `isOnPage`: false after its end. */
  readonly narrow?: (cut: Fragment) => Fragment;
}

/** How many rows are read before all are scanned: this takes some milliseconds. */
const NEAR_ROWS_MAX = 2_000;
/** How many are read for a part of a name that many names have: this takes some 100 ms. */
export const FAR_ROWS_MAX = 50_000;

/**
 * Reads a page. Pages by the values of the last row, not by a count, so that it stays stable while
 * resources come and go. Locks nothing. Index: `lease_pkey`, `lease_lease_id_key` for one grant and
 * `backend_drone_id_status_rank_idx` for a drone; no row means that nothing is left.
 */
export async function listResources<Row extends LeaseRow & { readonly isOnPage?: boolean }>(
  sql: Sql<'reads'>,
  face: Face,
  { filter, order }: { readonly filter: ResourceFilter; readonly order: LeaseOrder },
  shown: ResourceColumns,
): Promise<Row[]> {
  const ofFace = fragment`l.face = ${face} ${C} and ${rangeOf(filter)} and ${placeOf(order)}`;
  const way = order.by === 'name' ? wayOf(filter) : 'scan';
  if (way === 'walk') {
    return pageOfRows(sql, {
      cut: cutOf(fragment`lease l where ${ofFace}`, order),
      order,
      shown,
    });
  }
  const wanted = othersOf(filter);
  const lookAt = (count: number): Promise<Row[]> => {
    const next = fragment`
      (
        select l.* from lease l
        where ${ofFace}
        order by ${orderOf(order)}
        limit ${count}
      ) l
      where ${wanted}`;
    return pageOfRows(sql, { cut: cutOf(next, order), order, shown });
  };
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
    select l.* from ${rare ?? fragment`lease l`}
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
export function rangeOf(filter: ResourceFilter): Fragment {
  const { namespace, includeChildren, name, prefix, livesIn } = filter;
  const conditions = [withinLimits(filter.namespaces)];
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
    // Elsewhere a name does not show where its row is, so only a condition on the rows uses it.
    if (!includeChildren) conditions.push(nameConditionOf(name, prefix));
  }
  return joinFragments(conditions, ' and ');
}

/** The conditions that only the rows themselves answer. */
export function othersOf(filter: ResourceFilter): Fragment {
  const { name, prefix, contains, phase, endedWithinMs, holder, tag, droneId, leaseId } = filter;
  const conditions = [nameConditionOf(name, prefix)];
  if (filter.is !== undefined) conditions.push(IS_CONDITIONS[filter.is]);
  if (holder !== undefined) conditions.push(fragment`l.holder = ${holder}`);
  if (tag !== undefined) conditions.push(fragment`l.tag = ${tag}`);
  if (phase !== undefined) conditions.push(PHASE_CONDITIONS[phase]);
  if (endedWithinMs !== undefined) conditions.push(endedWithin(endedWithinMs));
  if (contains !== undefined) {
    conditions.push(containsText(contains, fragment`l.namespace`, fragment`l.name`));
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
export async function rareNames(
  sql: Sql<'reads'>,
  face: Face,
  { contains, leaseId, droneId }: ResourceFilter,
): Promise<Fragment | undefined> {
  if (contains === undefined || leaseId !== undefined || droneId !== undefined) return undefined;
  if (!(await isRareName(sql, contains))) return undefined;
  return fragment`(${namesWith(contains, face)}) k
    cross join lateral (
      select l.* from lease l
      where l.face = ${face} ${C} and l.namespace = k.namespace and l.name = k.name
      limit 1
    ) l`;
}

function nameConditionOf(name: string | undefined, prefix: string | undefined): Fragment {
  const conditions = [fragment`true`];
  if (name !== undefined) conditions.push(fragment`l.name = ${name} ${C}`);
  if (prefix !== undefined) conditions.push(fragment`starts_with(l.name, ${prefix})`);
  return joinFragments(conditions, ' and ');
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
        where w.face = l.face and w.namespace = l.namespace and w.name = l.name
          and w.valid_until > clock_timestamp()
      ) as waiters
    from (${shown.narrow?.(cut) ?? cut}) l
    ${shown.joins}
    order by ${orderOf(order)}`;
}
