import type { BackendStatus } from '../kernel/fleet/backend-state.ts';
import { phaseOf } from '../kernel/lease/lease.ts';
import {
  type KeyRow,
  type LeaseOrder,
  cursorAfter,
  grantTimes,
  listKeys,
  placeFrom,
} from '../lists/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { readNow } from '../postgres/database-settings.ts';
import { isoOf } from '../postgres/rows.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { KeyListInput, KeyPage, KeyView } from './key-types.ts';

const ANY_ORDER: LeaseOrder = { by: 'name', direction: 'asc', after: null, limit: 1 };

/** One key, or null when none exists, it has moved to another datacenter, or the caller may not see it. */
export async function getKey(
  store: Store,
  key: { readonly name: string; readonly namespace: string },
  caller: Caller,
): Promise<KeyView | null> {
  const { namespace, name } = key;
  const filter = {
    ...{ namespace, name, includeChildren: false, namespaces: caller.namespaces },
    livesIn: store.datacenter,
  };
  const [row] = await listKeys(store.reads, filter, ANY_ORDER);
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
    store.reads,
    {
      ...input,
      includeChildren: input.includeChildren ?? false,
      namespaces: caller.namespaces,
      livesIn: store.datacenter,
    },
    { by, direction, after, limit: input.limit + 1 },
  );
  const items = rows.slice(0, input.limit);
  const last = items.at(-1);
  const hasMore = rows.length > input.limit && last !== undefined;
  return {
    items: items.map((row) => viewOf(store, row)),
    nextCursor: hasMore ? cursorAfter(by, last) : null,
    asOf: last === undefined ? await readNow(store.reads) : isoOf(last.asOf),
  };
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
    ...grantTimes(row),
    waiters: row.waiters,
    reservationId: row.reservationId,
    datacenter: store.datacenter,
    asOf: isoOf(row.asOf),
  };
}
