/** How lists of resources are filtered and paged, whatever their face. The table's alias is `l`. */
import type { LeaseRow, Phase } from '../../kernel/lease.ts';
import type { Named } from '../../kernel/resource.ts';
import { NEVER } from '../../postgres/clock/expiry.ts';
import { decodeCursor, encodeCursor, invalidCursor } from '../../postgres/paging.ts';
import { C, type Fragment, fragment, joinFragments } from '../../postgres/sql.ts';

export interface LeaseOrder {
  readonly by: 'name' | 'grantedAt' | 'expiresAt';
  readonly direction: 'asc' | 'desc';
  /** The place of the last row of the page before; null for the first page. */
  readonly after: LeasePlace | null;
  readonly limit: number;
}

/** Where a row stands: its sort instant as epoch milliseconds (null by name), namespace and name. */
export interface LeasePlace extends Named {
  readonly at: number | null;
}

/**
 * Whether a row's namespace is this one or a child of it. The bounds are for the index: every child of
 * `a` lies from `a` up to `a/`, `/` being the character after `.`; other namespaces in that range, such
 * as `a-b`, are left out by the exact condition.
 */
export function withinNamespace(
  namespace: string,
  column: Fragment = fragment`l.namespace`,
): Fragment {
  if (namespace === '') return fragment`true`;
  return fragment`(
    ${column} >= ${namespace} ${C} and ${column} < ${`${namespace}/`} ${C}
    and (${column} = ${namespace} ${C} or starts_with(${column}, ${`${namespace}.`}))
  )`;
}

/**
 * Whether a row's namespace is one that the caller may see; null for no limit. The same as
 * `lease_is_within`, written so that the planner sees through it: called for each of a million rows,
 * the function took four seconds.
 */
export function withinLimits(
  limits: readonly string[] | null,
  column: Fragment = fragment`l.namespace`,
): Fragment {
  if (limits === null) return fragment`true`;
  if (limits.length === 0) return fragment`false`;
  const any = limits.map((namespace) => withinNamespace(namespace, column));
  return fragment`(${joinFragments(any, ' or ')})`;
}

/** Held back for a time: the own row of a pool is so without end, and nobody waits for that. */
const HELD_BACK = fragment`(
  l.stops_by is not null and l.stops_by > clock_timestamp() and l.stops_by < ${NEVER}
)`;

const UNEXPIRED = fragment`lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;

/** Whether a row is shown in lists: of a pool each holder is, and neither its own row nor a slot that is free. */
export const IS_SHOWN = fragment`(l.pool is null or (l.pool <> l.name and l.end_reason is null))`;

/** `phaseOf` in SQL; a test keeps the two the same. */
export const PHASE_CONDITIONS: Record<Phase, Fragment> = {
  held: fragment`(${UNEXPIRED} and l.renewable and not ${HELD_BACK})`,
  expiring: fragment`((${UNEXPIRED} and not l.renewable) or ${HELD_BACK})`,
  expired: fragment`(not ${UNEXPIRED} and coalesce(l.end_reason, 'expired') = 'expired' and not ${HELD_BACK})`,
  free: fragment`(l.end_reason in ('released', 'revoked', 'removed') and not ${HELD_BACK})`,
};

/** What the overview counts beside phases. Tickets are few: they are read once. */
export const IS_CONDITIONS = {
  waited: fragment`(l.face, l.namespace, coalesce(l.pool, l.name)) in (
    select w.face, w.namespace, w.name from lease_waiter w where w.valid_until > clock_timestamp()
  )`,
  overdue: fragment`(
    l.end_reason is null and l.released_at is null and l.expires_at <= clock_timestamp()
  )`,
} as const;

/** Whether somebody holds a row, or did at some moment of the last `ms`. */
export function endedWithin(ms: number): Fragment {
  return fragment`(
    ${UNEXPIRED} or ${HELD_BACK}
    or coalesce(l.released_at, l.expires_at) > clock_timestamp() - ${ms}::float8 * interval '1 millisecond'
  )`;
}

const SORT_COLUMNS = {
  grantedAt: fragment`l.granted_at`,
  // What was released before its end is over since then.
  expiresAt: fragment`least(l.expires_at, l.released_at)`,
} as const;

/** The condition that a row comes after the place that was reached. */
export function placeOf({ by, direction, after }: LeaseOrder): Fragment {
  if (after === null) return fragment`true`;
  const comparison = direction === 'asc' ? fragment`>` : fragment`<`;
  const names = fragment`${after.namespace} ${C}, ${after.name} ${C}`;
  if (by === 'name') return fragment`(l.namespace, l.name) ${comparison} (${names})`;
  return fragment`(${SORT_COLUMNS[by]}, l.namespace, l.name)
    ${comparison} (to_timestamp(${(after.at ?? 0) / 1000}::float8)::timestamptz(3), ${names})`;
}

/** What rows are ordered by. */
export function orderOf({ by, direction }: LeaseOrder): Fragment {
  const to = direction === 'asc' ? fragment`asc` : fragment`desc`;
  const names = fragment`l.namespace ${to}, l.name ${to}`;
  return by === 'name' ? names : fragment`${SORT_COLUMNS[by]} ${to}, ${names}`;
}

/**
 * The same order, written so that no index gives it: rows are read as the conditions find them, and
 * only the first ones are kept.
 */
export function scanOrderOf({ by, direction }: LeaseOrder): Fragment {
  const to = direction === 'asc' ? fragment`asc` : fragment`desc`;
  const names = fragment`(l.namespace || '') ${C} ${to}, l.name ${to}`;
  return by === 'name' ? names : fragment`${SORT_COLUMNS[by]} ${to}, ${names}`;
}

/** The cursor of the page that begins after a row. */
export function cursorAfter(
  by: LeaseOrder['by'],
  row: Pick<LeaseRow, 'grantedAt' | 'expiresAt' | 'releasedAt' | 'namespace' | 'name'>,
): string {
  return encodeCursor([by === 'name' ? '' : String(instantOf(by, row)), row.namespace, row.name]);
}

function instantOf(
  by: 'grantedAt' | 'expiresAt',
  row: Pick<LeaseRow, 'grantedAt' | 'expiresAt' | 'releasedAt'>,
): number {
  return by === 'grantedAt' ? row.grantedAt : Math.min(row.expiresAt, row.releasedAt ?? Infinity);
}

/** The furthest instant that has a date, in milliseconds from the epoch. */
const INSTANT_MS_MAX = 8.64e15;

/**
 * The place that {@link cursorAfter} wrote.
 * @throws {LeaseError} `request.invalid` for anything else, and for a cursor of another order.
 */
export function placeFrom(cursor: string, by: LeaseOrder['by']): LeasePlace {
  const [at = '', namespace = '', name = ''] = decodeCursor(cursor, 3);
  if (!namespace.isWellFormed() || !name.isWellFormed()) throw invalidCursor();
  if (by === 'name') {
    if (at !== '') throw invalidCursor();
    return { at: null, namespace, name };
  }
  const atMs = Number(at);
  if (at === '' || !(atMs >= 0 && atMs <= INSTANT_MS_MAX)) throw invalidCursor();
  return { at: atMs, namespace, name };
}
