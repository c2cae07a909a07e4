import type { BackendStatus } from '../../kernel/backend-state.ts';
import { LeaseError } from '../../kernel/errors.ts';
import { phaseOf } from '../../kernel/lease.ts';
import { isWithinNamespace } from '../../kernel/resource.ts';
import { readHistory, readWaiters, type EventRow } from '../../store/history.ts';
import { listKeys, type KeyOrder, type KeyRow } from '../../store/key-list.ts';
import type { Store } from '../../store/open-store.ts';
import { isoOf } from '../../store/rows.ts';
import type { Caller, EventView, Page, WaiterView } from '../face-types.ts';
import type { KeyListInput, KeyPage, KeyView } from './key-types.ts';

const ANY_ORDER: KeyOrder = { by: 'name', direction: 'asc', after: null, limit: 1 };

/** One key, or null when there is none or the caller may not see it. */
export async function getKey(
  store: Store,
  key: { readonly name: string; readonly namespace: string },
  caller: Caller,
): Promise<KeyView | null> {
  const filter = { ...key, namespaces: caller.namespaces };
  const [row] = await listKeys(store.prisma, filter, ANY_ORDER);
  return row === undefined ? null : viewOf(store, row);
}

/** A page of keys. @throws {LeaseError} `request.invalid` for a cursor of another order. */
export async function listKeyPage(
  store: Store,
  input: KeyListInput,
  caller: Caller,
): Promise<KeyPage> {
  const by = input.sort ?? 'name';
  const direction = input.direction ?? 'asc';
  const after = input.cursor === undefined ? null : placeFrom(input.cursor, by);
  const rows = await listKeys(
    store.prisma,
    { ...input, namespaces: caller.namespaces },
    { by, direction, after, limit: input.limit + 1 },
  );
  const items = rows.slice(0, input.limit);
  const last = items.at(-1);
  const hasMore = rows.length > input.limit && last !== undefined;
  return {
    items: items.map((row) => viewOf(store, row)),
    nextCursor: hasMore
      ? cursorOf([by === 'name' ? null : last[by], last.namespace, last.name])
      : null,
    asOf: isoOf(last?.asOf ?? (await readClock(store))),
  };
}

async function readClock(store: Store): Promise<number> {
  const rows = await store.prisma.$queryRaw<{ asOf: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;
  return rows[0]?.asOf ?? 0;
}

function viewOf(store: Store, row: KeyRow): KeyView {
  return {
    name: row.name,
    namespace: row.namespace,
    tag: row.tag,
    phase: phaseOf(row, row.asOf),
    leaseId: row.leaseId,
    fencingToken: row.fencingToken,
    holder: row.holder,
    droneId: row.droneId,
    backendId: row.backendId,
    backendStatus: row.backendStatus as BackendStatus | null,
    grantedAt: isoOf(row.grantedAt),
    renewedAt: isoOf(row.renewedAt),
    expiresAt: isoOf(row.expiresAt),
    remainingMs: row.endReason === null ? Math.max(0, Math.round(row.expiresAt - row.asOf)) : 0,
    renewable: row.renewable,
    waiters: row.waiters,
    datacenter: store.datacenter,
    asOf: isoOf(row.asOf),
  };
}

interface OneKey {
  readonly name: string;
  readonly namespace: string;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Who waits for a key, first in line first; nothing for a key the caller may not see. */
export async function keyWaiters(
  store: Store,
  input: OneKey,
  caller: Caller,
): Promise<Page<WaiterView>> {
  if (!mayRead(input, caller)) return { items: [], nextCursor: null };
  const rows = await readWaiters(
    store.prisma,
    { face: 'key', ...input },
    {
      afterId: input.cursor === undefined ? null : idFrom(input.cursor),
      limit: input.limit + 1,
    },
  );
  return pageOf(rows, input.limit, ({ ticketId, waiter, createdAt, waitedMs }) => ({
    ticketId,
    waiter,
    since: isoOf(createdAt),
    waitedMs: Math.round(waitedMs),
  }));
}

/** What happened to a key, newest first; nothing for a key the caller may not see. */
export async function keyHistory(
  store: Store,
  input: OneKey,
  caller: Caller,
): Promise<Page<EventView>> {
  if (!mayRead(input, caller)) return { items: [], nextCursor: null };
  const rows = await readHistory(
    store.prisma,
    { face: 'key', ...input },
    {
      beforeId: input.cursor === undefined ? null : idFrom(input.cursor),
      limit: input.limit + 1,
    },
  );
  return pageOf(rows, input.limit, (row) => eventView(store, row));
}

function eventView(store: Store, row: EventRow): EventView {
  return { ...row, at: isoOf(row.at), datacenter: store.datacenter };
}

function mayRead(key: { readonly namespace: string }, caller: Caller): boolean {
  return (
    caller.namespaces === null ||
    caller.namespaces.some((parent) => isWithinNamespace(key.namespace, parent))
  );
}

function pageOf<Row extends { readonly id: string }, View>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => View,
): Page<View> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return {
    items: items.map(view),
    nextCursor: rows.length > limit && last !== undefined ? cursorOf([last.id]) : null,
  };
}

function cursorOf(values: readonly (string | number | null)[]): string {
  return Buffer.from(JSON.stringify(values)).toString('base64url');
}

function valuesFrom(cursor: string): unknown[] {
  try {
    const values: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(values)) return values as unknown[];
  } catch {
    // Falls through to the one error for every kind of nonsense.
  }
  throw badCursor();
}

function badCursor(): LeaseError {
  return new LeaseError('request.invalid', 'cursor must be the nextCursor of the page before', {
    details: { field: 'cursor' },
  });
}

function idFrom(cursor: string): string {
  const [id] = valuesFrom(cursor);
  if (typeof id !== 'string' || !/^\d{1,18}$/u.test(id)) throw badCursor();
  return id;
}

/** The furthest instant that has a date, in milliseconds from the epoch. */
const INSTANT_MS_MAX = 8.64e15;

/** The place of the last row of the page before; a cursor of another order has none here. */
function placeFrom(cursor: string, by: KeyOrder['by']): NonNullable<KeyOrder['after']> {
  const [at, namespace, name] = valuesFrom(cursor);
  if (!isStorable(namespace) || !isStorable(name)) throw badCursor();
  if (by === 'name') {
    if (at !== null) throw badCursor();
    return { at, namespace, name };
  }
  if (typeof at !== 'number' || !(at >= 0 && at <= INSTANT_MS_MAX)) throw badCursor();
  return { at, namespace, name };
}

/** Whether PostgreSQL takes it as a text: a cursor is whatever somebody sends. */
function isStorable(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}
