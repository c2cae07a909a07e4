import type { Named } from '../kernel/resource/resource.ts';
import { CALLBACK_KEPT_MS } from '../grants/index.ts';
import { readContention, type WaiterRow } from './sql/contention.ts';
import { readFailingCallbacks, type FailingCallbackRow } from './sql/failing-callbacks.ts';
import {
  type ListedLease,
  type NamespaceCounts,
  countByNamespace,
  countResources,
  grantView,
  listLeases,
  ONE,
  resourcePage,
} from '../lists/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { idFrom, isUuid, pageOf, placeAfter } from '../postgres/paging/page-cursor.ts';
import { readNow } from '../postgres/database-settings.ts';
import { isoOf } from '../postgres/sql.ts';
import type { Caller, Count, DatedPage, FilterOf, PageInput } from '../kernel/face-types.ts';
import type {
  ContentionInput,
  ContentionView,
  FailingCallback,
  LeaseListInput,
  LeasePage,
  LeaseTree,
  LeaseView,
  InNamespace,
  TreeInput,
} from './lease-views.ts';

/** The face whose resources are read, and where. */
export interface LeaseReader {
  readonly store: Store;
  readonly face: 'lease' | 'environment';
}

/** One lease, or null when none exists or the caller may not see it. */
export async function getLease(
  reader: LeaseReader,
  lease: Named,
  caller: Caller,
): Promise<LeaseView | null> {
  const { namespace, name } = lease;
  const filter = { namespace, name, includeChildren: false, namespaces: caller.namespaces };
  const [row] = await listLeases(reader.store.reads, reader.face, filter, ONE);
  return row === undefined ? null : viewOf(reader, row);
}

/** A page of leases. @throws {LeaseError} `request.invalid` for a cursor of another order. */
export function listLeasePage(
  reader: LeaseReader,
  input: LeaseListInput,
  caller: Caller,
): Promise<LeasePage> {
  const filter = filterOf(input, caller);
  return resourcePage(
    reader.store,
    input,
    (order) => listLeases(reader.store.reads, reader.face, filter, order),
    (row) => viewOf(reader, row),
  );
}

/** How many leases all pages have together. */
export function countLeases(
  { store, face }: LeaseReader,
  input: FilterOf<LeaseListInput>,
  caller: Caller,
): Promise<Count> {
  return countResources(store.reads, face, filterOf(input, caller));
}

function filterOf(input: FilterOf<LeaseListInput>, caller: Caller) {
  return {
    ...input,
    tag: input.action,
    includeChildren: input.includeChildren ?? true,
    namespaces: caller.namespaces,
  };
}

function viewOf({ store, face }: LeaseReader, row: ListedLease): LeaseView {
  return {
    ...grantView(store, row),
    action: face === 'environment' ? row.tag : null,
    comment: row.comment,
    metadata: row.metadata,
    ttlMs: row.ttlMs,
  };
}

/** A tree with more namespaces than this is cut, and reports that: ask for a part of it. */
const TREE_NODES_MAX = 5_000;

/** Counts by namespace, from the one that is named downwards. */
export async function leaseTree(
  { store, face }: LeaseReader,
  input: TreeInput,
  caller: Caller,
): Promise<LeaseTree> {
  const nodes = await countByNamespace(store.reads, face, {
    namespace: input.namespace ?? '',
    namespaces: caller.namespaces,
    withoutOwn: input.withoutOwn === true,
    limit: TREE_NODES_MAX + 1,
  });
  return {
    items: nodes.slice(0, TREE_NODES_MAX).sort(byName),
    isComplete: nodes.length <= TREE_NODES_MAX,
    asOf: await readNow(store.reads),
  };
}

function byName(a: NamespaceCounts, b: NamespaceCounts): number {
  return a.namespace < b.namespace ? -1 : 1;
}

/** A page of who waits for whom. @throws {LeaseError} `request.invalid` for a foreign cursor. */
export async function contentionPage(
  { store, face }: LeaseReader,
  input: ContentionInput,
  caller: Caller,
): Promise<DatedPage<ContentionView>> {
  const rows = await readContention(store.reads, input.faces ?? [face], {
    namespace: input.namespace ?? '',
    namespaces: caller.namespaces,
    afterId: idFrom(input.cursor),
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ id }) => [id]);
  return {
    items: items.map((row) => contentionView(store, row)),
    nextCursor,
    asOf: await readNow(store.reads),
  };
}

function contentionView({ datacenter }: Store, row: WaiterRow): ContentionView {
  return {
    face: row.face,
    namespace: row.namespace,
    name: row.name,
    waiter: row.waiter,
    since: isoOf(row.createdAt),
    waitedMs: Math.round(row.waitedMs),
    place: row.place,
    holder: row.holder,
    heldSince: row.heldSince === null ? null : isoOf(row.heldSince),
    remainingMs: Math.max(0, Math.round(row.remainingMs)),
    datacenter,
  };
}

/** A page of callbacks that fail. @throws {LeaseError} `request.invalid` for a foreign cursor. */
export async function failingCallbackPage(
  { store }: LeaseReader,
  input: InNamespace & PageInput,
  caller: Caller,
): Promise<DatedPage<FailingCallback>> {
  const rows = await readFailingCallbacks(store.reads, {
    namespace: input.namespace ?? '',
    namespaces: caller.namespaces,
    after: input.cursor === undefined ? null : placeAfter(input.cursor, isUuid),
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ expiredAt, leaseId }) => [
    isoOf(expiredAt),
    leaseId,
  ]);
  return {
    items: items.map((row) => failingCallbackView(row, store.datacenter)),
    nextCursor,
    asOf: await readNow(store.reads),
  };
}

function failingCallbackView(row: FailingCallbackRow, datacenter: string): FailingCallback {
  return {
    ...row,
    expiredAt: isoOf(row.expiredAt),
    nextTryAt: isoOf(row.nextTryAt),
    droppedAt: isoOf(row.expiredAt + CALLBACK_KEPT_MS),
    datacenter,
  };
}
