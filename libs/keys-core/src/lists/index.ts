/** The service of this slice, and what apps and other slices may use of it. */
import {
  eventCursor,
  type HistoryRow,
  holderAt,
  holdersAt,
  mayHaveSeveral,
  readFactsAround,
  readGrantsAround,
  readHistory,
} from '../events/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type {
  Caller,
  DatedPage,
  EventView,
  GrantListInput,
  GrantView,
  HolderAt,
  Page,
  PageInput,
  WaiterView,
} from '../kernel/face-types.ts';
import { type EndReason, type LeaseRow, phaseOf } from '../kernel/lease.ts';
import { isWithinNamespace, type Resource } from '../kernel/resource.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { Store } from '../postgres/open-store.ts';
import { idFrom, pageOf } from '../postgres/paging.ts';
import { isoOf } from '../postgres/sql.ts';
import { cursorAfter, type LeaseOrder, placeFrom } from './sql/lease-order.ts';
import { readWaiters } from './sql/resource-list.ts';

export {
  ARE_NAMES_FILLED,
  containsText,
  countByNamespace,
  countResources,
  foldedOf,
  hasPieces,
  IS_ALL_SEEN,
  type KeyRow,
  type ListedLease,
  listKeys,
  listLeases,
  LOOK_MATCHES_MIN,
  type NamespaceCounts,
  NEW_NAMES,
  SHOWN_LEASE_COLUMNS,
  SOME_NAMES,
} from './sql/resource-list.ts';
export { PHASE_CONDITIONS, withinLimits, withinNamespace } from './sql/lease-order.ts';

/** What people read about a resource of any face: its waiters, and what happened to it. */

/** The order in which one resource is read. */
export const ONE: LeaseOrder = { by: 'name', direction: 'asc', after: null, limit: 1 };

/**
 * A page of the resources of a face. `list` may end a page early, with a row that is not on it.
 * @throws {LeaseError} `request.invalid` for a cursor of another order.
 */
export async function resourcePage<Row extends LeaseRow & { readonly isOnPage?: boolean }, View>(
  store: Store,
  input: GrantListInput,
  list: (order: LeaseOrder) => Promise<Row[]>,
  viewOf: (row: Row) => View,
): Promise<DatedPage<View>> {
  const by = input.sort ?? 'name';
  const rows = await list({
    by,
    direction: input.direction ?? 'asc',
    after: input.cursor === undefined ? null : placeFrom(input.cursor, by),
    limit: input.limit + 1,
  });
  const items = rows.filter(({ isOnPage }) => isOnPage !== false).slice(0, input.limit);
  const last = items.at(-1);
  const hasMore = rows.length > items.length && last !== undefined;
  return {
    items: items.map(viewOf),
    nextCursor: hasMore ? cursorAfter(by, last) : null,
    asOf: last === undefined ? await readNow(store.reads) : isoOf(last.asOf),
  };
}

/** Whether a caller may see what is in a namespace. */
export function mayRead(resource: { readonly namespace: string }, caller: Caller): boolean {
  return (
    caller.namespaces === null ||
    caller.namespaces.some((parent) => isWithinNamespace(resource.namespace, parent))
  );
}

/** What the faces show alike of a resource that is, or was, held. */
export function grantView(
  { datacenter }: Pick<Store, 'datacenter'>,
  row: LeaseRow & { readonly waiters: number },
): GrantView {
  const { name, namespace, leaseId, fencingToken, holder, renewable, waiters } = row;
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = row;
  const phase = phaseOf(row, row.asOf);
  return {
    name,
    namespace,
    phase,
    leaseId,
    fencingToken,
    holder,
    grantedAt: isoOf(row.grantedAt),
    renewedAt: isoOf(row.renewedAt),
    expiresAt: isoOf(row.expiresAt),
    remainingMs: row.endReason === null ? Math.max(0, Math.round(row.expiresAt - row.asOf)) : 0,
    renewable,
    ladder: { renewAfterMs, softAfterMs, hardAfterMs, ttlMs },
    stopsBy: row.stopsBy === null ? null : isoOf(row.stopsBy),
    endReason: (row.endReason as EndReason | null) ?? (phase === 'expired' ? 'expired' : null),
    releasedAt: row.releasedAt === null ? null : isoOf(row.releasedAt),
    waiters,
    datacenter,
    asOf: isoOf(row.asOf),
  };
}

/** The waiters of a resource, first in line first; none for a resource that the caller may not see. */
export async function waiterPage(
  store: Store,
  { resource, caller }: { readonly resource: Resource; readonly caller: Caller },
  input: PageInput,
): Promise<Page<WaiterView>> {
  if (!mayRead(resource, caller)) return { items: [], nextCursor: null };
  const rows = await readWaiters(store.reads, resource, {
    afterId: idFrom(input.cursor),
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ id }) => [id]);
  return {
    items: items.map(({ ticketId, waiter, createdAt, waitedMs }) => ({
      ticketId,
      waiter,
      since: isoOf(createdAt),
      waitedMs: Math.round(waitedMs),
    })),
    nextCursor,
  };
}

/**
 * Who held a resource at a moment. Of one that the caller may not see, nothing is known.
 * @throws {LeaseError} `request.invalid` for a moment that has not come.
 */
export async function holderAtMoment(
  store: Store,
  { resource, caller }: { readonly resource: Resource; readonly caller: Caller },
  at: string,
): Promise<HolderAt> {
  const facts = await readFactsAround(store.reads, resource, at);
  if (facts.at > facts.now) {
    throw new LeaseError(
      'request.invalid',
      `at must not be in the future: it is ${isoOf(facts.now)}`,
      {
        details: { field: 'at' },
      },
    );
  }
  const answer = !mayRead(resource, caller)
    ? { phase: 'unknown' as const, grant: null, sharing: null }
    : mayHaveSeveral(facts)
      ? holdersAt(resource.face, facts, await readGrantsAround(store.reads, resource, at))
      : { ...holderAt(resource.face, facts), sharing: null };
  return {
    at: isoOf(facts.at),
    ...answer,
    oldestAt: facts.oldestAt === null ? null : isoOf(facts.oldestAt),
    datacenter: store.datacenter,
    asOf: isoOf(facts.now),
  };
}

/** What happened to a resource, newest first; nothing for one that the caller may not see. */
export async function historyPage(
  store: Store,
  { resource, caller }: { readonly resource: Resource; readonly caller: Caller },
  input: PageInput,
): Promise<Page<EventView>> {
  if (!mayRead(resource, caller)) return { items: [], nextCursor: null };
  const rows = await readHistory(store.reads, resource, {
    beforeId: idFrom(input.cursor),
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ id }) => [id]);
  return { items: items.map((row) => eventView(store, row)), nextCursor };
}

/** The id is that of the event stream, which can be followed from there. */
function eventView(store: Store, { epoch, ...row }: HistoryRow): EventView {
  const id = eventCursor(epoch, row.id);
  return { ...row, id, at: isoOf(row.at), datacenter: store.datacenter };
}
