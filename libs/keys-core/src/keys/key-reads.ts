import type { Named } from '../kernel/resource/resource.ts';
import { hasFailed } from '../kernel/fleet/backend-end.ts';
import type { BackendStatus, TerminationReason } from '../kernel/fleet/backend-state.ts';
import {
  type KeyRow,
  countResources,
  grantView,
  listKeys,
  ONE,
  resourcePage,
} from '../lists/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import type { Caller, Count, FilterOf } from '../kernel/face-types.ts';
import type { KeyBackendEnd, KeyListInput, KeyPage, KeyView } from './key-types.ts';

/** One key, or null when none exists, it has moved to another datacenter, or the caller may not see it. */
export async function getKey(store: Store, key: Named, caller: Caller): Promise<KeyView | null> {
  const { namespace, name } = key;
  const filter = {
    ...{ namespace, name, includeChildren: false, namespaces: caller.namespaces },
    livesIn: store.datacenter,
  };
  const [row] = await listKeys(store.reads, filter, ONE);
  return row === undefined ? null : viewOf(store, row);
}

/** A page of keys. @throws {LeaseError} `request.invalid` for a cursor of another order. */
export function listKeyPage(store: Store, input: KeyListInput, caller: Caller): Promise<KeyPage> {
  const filter = filterOf(store, input, caller);
  return resourcePage(
    store,
    input,
    (order) => listKeys(store.reads, filter, order),
    (row) => viewOf(store, row),
  );
}

/** How many keys all pages have together. */
export function countKeys(
  store: Store,
  input: FilterOf<KeyListInput>,
  caller: Caller,
): Promise<Count> {
  return countResources(store.reads, 'key', filterOf(store, input, caller));
}

function filterOf(store: Store, input: FilterOf<KeyListInput>, caller: Caller) {
  return {
    ...input,
    includeChildren: input.includeChildren ?? false,
    namespaces: caller.namespaces,
    livesIn: store.datacenter,
  };
}

function viewOf(store: Store, row: KeyRow): KeyView {
  return {
    ...grantView(store, row),
    tag: row.tag,
    droneId: row.droneId,
    backendId: row.backendId,
    backendStatus: row.backendStatus as BackendStatus | null,
    backendEnd: endOf(row),
    reservationId: row.reservationId,
    failing: row.failing === null ? null : failuresView(row.failing),
  };
}

/** The failures of a key with instants as ISO-8601. */
export function failuresView<Row extends Record<'since' | 'failedAt' | 'startAt', number>>(
  row: Row,
) {
  const { since, failedAt, startAt } = row;
  return { ...row, since: isoOf(since), failedAt: isoOf(failedAt), startAt: isoOf(startAt) };
}

function endOf({ backendStatus, backendReason, exitCode, wasReady }: KeyRow): KeyBackendEnd | null {
  if (backendStatus !== 'terminated') return null;
  const reason = backendReason as TerminationReason | null;
  return { reason, exitCode, hasFailed: hasFailed({ reason, exitCode }, wasReady === true) };
}
