/** What people look at and do with leases and environments. */
import { type AuditEntry, grantRecorder, writeAudit } from '../access/index.ts';
import {
  actOnGrant,
  CALLBACK_KEPT_MS,
  changeRenewable,
  readQueue,
  readSuperseded,
  revoke,
} from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller, Count, DatedPage, FilterOf, PageInput } from '../kernel/face-types.ts';
import { FAIR_USE_MAX } from '../kernel/fair-use.ts';
import type { Permits } from '../kernel/lease.ts';
import { leaseTopic, type Named, namespaceText, poolTopic } from '../kernel/resource.ts';
import {
  countByNamespace,
  countResources,
  grantView,
  historyPage,
  holderAtMoment,
  type ListedLease,
  listLeases,
  mayRead,
  type NamespaceCounts,
  ONE,
  resourcePage,
  waiterPage,
} from '../lists/index.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { readNow } from '../postgres/database-settings.ts';
import { timed } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { decodeCursor, idFrom, isUuid, pageOf, placeAfter } from '../postgres/paging.ts';
import { isoOf } from '../postgres/sql.ts';
import { assertTtl, poolView } from './acquire-answers.ts';
import type {
  ContentionInput,
  ContentionView,
  Declarations,
  EnvironmentQueue,
  FailingCallback,
  InNamespace,
  LeaseDeclaration,
  LeaseListInput,
  LeaseOperations,
  LeasePage,
  LeaseTree,
  LeaseView,
  TreeInput,
} from './lease-types.ts';
import type { RevocationWatch } from './revocations.ts';
import {
  type FailingCallbackRow,
  readContention,
  readFailingCallbacks,
  TOGETHER_SHOWN_MAX,
  type WaiterRow,
} from './sql/contention.ts';
import {
  type DeclarationRequest,
  readDeclarations,
  writeDeclarations,
} from './sql/declarations.ts';
import {
  type PoolFound,
  readPool,
  declarePermits,
  type PermitsRequest,
  type PermitsRow,
  setPermits,
} from './sql/permits.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';
import { explainWaits, summarizeWaits } from './why.ts';

export interface LeaseOperationsDeps extends LeaseReader {
  /** One per controller, for all faces. */
  readonly revocations: RevocationWatch;
}

/** The operations of the leases or the environments face. */
export function createLeaseOperations(deps: LeaseOperationsDeps): LeaseOperations {
  const { store, face, revocations } = deps;
  return {
    get: (input, caller) => getLease(deps, input, caller),
    list: (input, caller) => listLeasePage(deps, input, caller),
    count: (input, caller) => countLeases(deps, input, caller),
    tree: (input, caller) => leaseTree(deps, input, caller),
    contention: (input, caller) => contentionPage(deps, input, caller),
    why: ({ namespace, name, windowMinutes }, caller) =>
      explainWaits(store, { face, namespace, name }, { windowMinutes, caller }),
    mostWaited: (input, caller) => summarizeWaits(store, input, caller),
    failingCallbacks: (input, caller) => failingCallbackPage(deps, input, caller),
    waiters: (input, caller) => waiterPage(store, { resource: { ...input, face }, caller }, input),
    queue: (input, caller) => environmentQueue(store, input, caller),
    history: (input, caller) => historyPage(store, { resource: { ...input, face }, caller }, input),
    at: (input, caller) =>
      holderAtMoment(store, { resource: { ...input, face }, caller }, input.at),
    declare: (input, caller) => declareLeases(store, input, caller),
    async setPermits({ reason, ...request }, caller, actor) {
      const { namespace } = request;
      const row = await setAllPermits(store, request, caller, {
        ...actor,
        action: 'leases.setPermits',
        resource: `declaration:${namespace}`,
        reason,
        detail: request,
      });
      // Those who wait may have their turn.
      store.hints.notify(poolTopic({ namespace }));
      return { namespace, permits: { perKey: row.perKey, total: row.total }, by: row.by };
    },
    declared: (input, caller) => declarationPage(store, input, caller),
    async blockRenewal(input, caller, entry) {
      const which = { face, renewable: false };
      const record = grantRecorder(entry, input);
      const change = await changeRenewable(store, which, input, caller, record);
      if (change.changed) store.hints.notify(REVOCATIONS_TOPIC);
      return change;
    },
    allowRenewal: (input, caller, entry) =>
      changeRenewable(store, { face, renewable: true }, input, caller, grantRecorder(entry, input)),

    async revoke(input, { actor, namespaces }, entry) {
      const { leaseId, mode } = input;
      const request = { ...input, abandon: false, actor, namespaces };
      const grant = await timed(store, 'revoke', () =>
        actOnGrant(store, grantRecorder(entry, input), async (sql) =>
          (await revoke(sql, face, [request])).get(leaseId),
        ),
      );
      if (grant === undefined) return { outcome: 'gone', stopsBy: null };
      store.hints.notify(REVOCATIONS_TOPIC);
      // A lease revoked by force is free at once: waiters must not wait for their next look.
      if (mode === 'force') {
        store.hints.notify(grant.isOfNamespace ? poolTopic(grant) : leaseTopic(grant));
      }
      return {
        outcome: mode === 'force' ? 'revoked' : 'revoking',
        stopsBy: isoOf(grant.stopsBy),
      };
    },

    revocations: (caller, signal) => revocations.follow(caller.principal, signal),
  };
}

/**
 * Records which leases a service uses, for people to see. A namespace that is named twice counts
 * once, with its last entry.
 * @throws {LeaseError} `lease.ttl_out_of_range`; `quota.exceeded` when the caller would have declared
 * more than `ownMax`: nothing is recorded then; `lease.permits_differ`.
 */
async function declareLeases(
  store: Store,
  { declarations, ownMax = FAIR_USE_MAX.declarations }: Declarations,
  caller: Caller,
): Promise<{ declared: number }> {
  const byNamespace = new Map<string, DeclarationRequest>();
  const permitsOf = new Map<string, Permits>();
  for (const { namespace, ttlMs, description, permits } of declarations) {
    assertTtl(ttlMs);
    byNamespace.set(namespace, { namespace, ttlMs, description: description ?? null });
    if (permits !== undefined) permitsOf.set(namespace, { total: null, ...permits });
  }
  if (byNamespace.size > 0) {
    const by = { ...caller, ownMax };
    const written = await writeDeclarations(store.general, by, [...byNamespace.values()]);
    if (written === 0) {
      const details = { limit: 'declarations', max: ownMax };
      throw new LeaseError(
        'quota.exceeded',
        `The quota declarations of this token is ${String(ownMax)}.`,
        { details },
      );
    }
  }
  const asked = [...permitsOf].map(([namespace, permits]) => ({ namespace, permits }));
  await declareAllPermits(store, asked, caller);
  return { declared: byNamespace.size };
}

/** A page of declarations. @throws {LeaseError} `request.invalid` for a foreign cursor. */
async function declarationPage(
  store: Store,
  input: Parameters<LeaseOperations['declared']>[0],
  caller: Caller,
): Promise<DatedPage<LeaseDeclaration>> {
  const [after = null] = input.cursor === undefined ? [] : decodeCursor(input.cursor, 1);
  const rows = await readDeclarations(store.reads, {
    namespaces: caller.namespaces,
    namespace: input.namespace ?? null,
    after,
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ namespace }) => [namespace]);
  return {
    items: items.map(({ perKey, total, permitsBy, ...row }) => ({
      ...row,
      declaredAt: isoOf(row.declaredAt),
      permits: perKey === null || permitsBy === null ? null : { perKey, total, by: permitsBy },
    })),
    nextCursor,
    asOf: await readNow(store.reads),
  };
}

/** The face whose resources are read, and where. */
interface LeaseReader {
  readonly store: Store;
  readonly face: 'lease' | 'environment';
}

/** One lease, or null when none exists or the caller may not see it. */
async function getLease(
  reader: LeaseReader,
  lease: Named,
  caller: Caller,
): Promise<LeaseView | null> {
  const { namespace, name } = lease;
  const filter = { namespace, name, includeChildren: false, namespaces: caller.namespaces };
  const [row] = await listLeases(reader.store.reads, reader.face, filter, ONE);
  if (reader.face === 'lease' && (row === undefined || row.pool !== null)) {
    const pool = await readPool(reader.store.reads, lease, caller.namespaces);
    if (pool !== undefined) return poolViewOf(reader, pool);
  }
  return row === undefined ? null : viewOf(reader, row);
}

/** A lease that several may hold at once: the holder whose grant expires first, and what else is held. */
function poolViewOf(reader: LeaseReader, { use, row }: PoolFound): LeaseView {
  return { ...viewOf(reader, row), pool: poolView(use, row.asOf) };
}

/** A page of leases. @throws {LeaseError} `request.invalid` for a cursor of another order. */
function listLeasePage(
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
function countLeases(
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
    name: row.pool ?? row.name,
    mode: row.mode,
    pool: null,
    action: face === 'environment' ? row.tag : null,
    comment: row.comment,
    metadata: row.metadata,
    ttlMs: row.ttlMs,
  };
}

/** A tree with more namespaces than this is cut, and reports that: ask for a part of it. */
const TREE_NODES_MAX = 5_000;

/** Counts by namespace, from the one that is named downwards. */
async function leaseTree(
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
async function contentionPage(
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
  const { face, namespace, name, waiter, place, mode, action, holderCount } = row;
  const { createdAt, together, togetherCount, perKey, total } = row;
  const others = together.filter((other) => other.namespace !== namespace || other.name !== name);
  return {
    face,
    namespace,
    name,
    waiter,
    place,
    mode,
    action,
    holderCount,
    since: isoOf(createdAt),
    waitedMs: Math.round(row.waitedMs),
    together:
      togetherCount === 1
        ? null
        : { count: togetherCount - 1, others: others.slice(0, TOGETHER_SHOWN_MAX) },
    holders: row.holders.map(({ waitsFor, ...holder }) => ({
      ...holder,
      since: isoOf(holder.since),
      remainingMs: Math.max(0, Math.round(holder.remainingMs)),
      waitsFor: waitsFor === null ? null : { ...waitsFor, since: isoOf(waitsFor.since) },
    })),
    permits: perKey === null ? null : { perKey, total },
    totalUsed: row.totalUsed,
    datacenter,
  };
}

/** How many of those who wait, or were superseded, are shown. */
const QUEUE_SHOWN_MAX = 100;

async function environmentQueue(
  { reads }: Store,
  environment: Named,
  caller: Caller,
): Promise<EnvironmentQueue> {
  const isVisible = mayRead(environment, caller);
  const [waiting, superseded, asOf] = await Promise.all([
    isVisible ? readQueue(reads, environment, QUEUE_SHOWN_MAX) : [],
    isVisible ? readSuperseded(reads, environment, QUEUE_SHOWN_MAX) : [],
    readNow(reads),
  ]);
  return {
    waiting: waiting.map((row, index) => ({
      place: index + 1,
      waiter: row.waiter,
      action: row.action,
      comment: row.comment,
      since: isoOf(row.createdAt),
      waitedMs: Math.round(row.waitedMs),
      isPrior: row.priority > 0,
      isNewestFirst: row.isNewestFirst,
      lapsesInMs: Math.round(row.lapsesInMs),
    })),
    superseded: superseded.map(({ at, since, ...row }) => ({
      ...row,
      since: new Date(since).toISOString(),
      at: isoOf(at),
    })),
    asOf,
  };
}

/** A page of callbacks that fail. @throws {LeaseError} `request.invalid` for a foreign cursor. */
async function failingCallbackPage(
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

/** The numbers of permits that services declare, and that operators set. */

/** What an operator's number is recorded with where no service has declared its leases yet. */
const TTL_MS = 30_000;

/**
 * Records the numbers that a service declares with its leases. The same token may change its own; a
 * number that an operator has set stays in force, whatever is declared.
 * @throws {LeaseError} `lease.permits_differ` when others are in force, or too many permits are in use for a total to come
 * or go; `grant.contended`.
 */
async function declareAllPermits(
  store: Store,
  requests: readonly PermitsRequest[],
  caller: Caller,
): Promise<void> {
  if (requests.length === 0) return;
  const rows = await unlessLocked(() =>
    store.general.$transaction((tx) => declarePermits(tx, caller, requests)),
  );
  const inForce = new Map(rows.map((row) => [row.namespace, row]));
  for (const { namespace, permits } of requests) {
    const row = inForce.get(namespace);
    if (row?.principal == null || isSame(row, permits)) continue;
    throw differ(namespace, row, permits);
  }
  // There may be more than before, and those who wait may have their turn.
  store.hints.notify(...requests.map(poolTopic));
}

/**
 * Sets the numbers of a namespace, whatever services declare.
 * @throws {LeaseError} `lease.permits_differ` when too many permits are in use for a total to come or go;
 * `grant.contended`.
 */
export async function setAllPermits(
  store: Store,
  request: PermitsRequest,
  caller: Caller,
  entry: AuditEntry,
): Promise<PermitsRow> {
  return unlessLocked(() =>
    store.general.$transaction(async (tx) => {
      const row = await setPermits(tx, caller, { request, ttlMs: TTL_MS });
      await writeAudit(tx, entry);
      return row;
    }),
  );
}

/** Fenced work may keep a permit locked that a total would move. @throws {LeaseError} `grant.contended`. */
async function unlessLocked<Result>(change: () => Promise<Result>): Promise<Result> {
  try {
    return await change();
  } catch (error) {
    if (databaseFailureOf(error) !== 'contention') throw error;
    throw new LeaseError('grant.contended', undefined, { cause: error });
  }
}

function isSame(one: Permits, other: Permits): boolean {
  return one.perKey === other.perKey && one.total === other.total;
}

function differ(namespace: string, inForce: PermitsRow, asked: Permits): LeaseError {
  const { perKey, total, by: declaredBy } = inForce;
  const declared = { perKey, total };
  return new LeaseError(
    'lease.permits_differ',
    `For the leases ${namespaceText(namespace)}, ${declaredBy} has declared ${permitsText(declared)}, and not ${permitsText(asked)}.`,
    { details: { namespace, declared, asked, declaredBy } },
  );
}

/** `3 permits for each key, 10 together`. */
function permitsText({ perKey, total }: Permits): string {
  const each = `${String(perKey)} ${perKey === 1 ? 'permit' : 'permits'} for each key`;
  return total === null ? each : `${each}, ${String(total)} together`;
}
