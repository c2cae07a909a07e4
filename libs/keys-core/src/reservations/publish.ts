import { LIMITS } from '../kernel/limits.ts';
import {
  datacenterOf,
  parseReservationKey,
  reservationIdOf,
  type ReservationKey,
  reservationKeyOf,
  reservationKeyText,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import type { EtcdReservationStore } from './etcd/etcd-store.ts';
import type { GivenUp } from './given-up.ts';
import { invalid } from './invalid.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { ReservationStatus } from './reservation-types.ts';
import {
  firstReservationsAfter,
  type HomeRow,
  newestPointers,
  newestReservations,
  pointersAfter,
  readGivenUp,
  unreservedKeysAfter,
} from './sql/membership.ts';
import { type Proof, putHomes } from './sql/reservations.ts';

export interface Publishing {
  readonly datacenter: string;
  readonly shared: EtcdReservationStore;
  /** The same store, with its answers kept in the own database. */
  readonly reservations: ReservationStore;
  readonly store: Store;
}

/** How many are put at once. */
const BATCH_MAX = 64;
const NAMED_MAX = 5;
/** Before every key, in their order. */
const FIRST_KEY = { namespace: '', name: '' };

/**
 * Whether a store that had everything lacks some of the newest rows that this datacenter publishes: then it was
 * restored from a backup in a way that kept its id.
 */
export async function hasForgotten({ datacenter, shared, store }: Publishing): Promise<boolean> {
  const lost = await readGivenUp(store.general);
  const opened = new Set(
    (await shared.givenUp.list()).filter((row) => row.opened !== null).map((row) => row.datacenter),
  );
  if (lost.some((row) => !opened.has(row.datacenter))) return true;
  for (const name of datacentersOf(datacenter, lost)) {
    if (await hasForgottenOf(name, { shared, store })) return true;
  }
  return false;
}

/** This datacenter, and those that were given up: nobody else can publish what is known of them. */
function datacentersOf(datacenter: string, lost: readonly GivenUp[]): string[] {
  return [datacenter, ...lost.map(({ datacenter: name }) => name)];
}

async function hasForgottenOf(
  datacenter: string,
  { shared, store }: Pick<Publishing, 'shared' | 'store'>,
): Promise<boolean> {
  const [homes, pointers] = await Promise.all([
    newestReservations(store.reads, datacenter, BATCH_MAX),
    newestPointers(store.reads, datacenter, BATCH_MAX),
  ]);
  const stored = await Promise.all([
    ...homes.map(({ key }) => shared.read(parseReservationKey(key))),
    ...pointers.map(({ fromId }) => shared.readPointer(fromId)),
  ]);
  return stored.includes(undefined);
}

/**
 * Publishes all first reservations and pointers of this datacenter to a store that lacks some, and
 * reserves, for this datacenter, the keys that were granted before there were reservations. Doing
 * it again changes nothing.
 *
 * @throws {LeaseError} `config.invalid` when some of them live elsewhere for the store: two
 * datacenters have worked apart, and somebody must decide which of them is right.
 */
export async function publishAll(publishing: Publishing): Promise<void> {
  const { datacenter, shared, reservations, store } = publishing;
  const lost = await readGivenUp(store.general);
  for (const givenUp of lost) await shared.givenUp.putBack(givenUp);
  const datacenters = datacentersOf(datacenter, lost);
  const conflicts = [
    ...(await conflictsOf(
      (last?: HomeRow) =>
        firstReservationsAfter(store.reads, datacenters, {
          afterKey: last?.key ?? '',
          limit: BATCH_MAX,
        }),
      async ({ key, reservationId }) => {
        const { outcome } = await shared.put(parseReservationKey(key), reservationId);
        return outcome === 'reserved' ? undefined : key;
      },
    )),
    ...(await conflictsOf(
      (last?: ReservationPointer) =>
        pointersAfter(store.reads, datacenters, { afterId: last?.fromId ?? '', limit: BATCH_MAX }),
      async (pointer) => {
        const { toId } = await shared.putPointer(pointer);
        return toId === pointer.toId ? undefined : pointer.fromId;
      },
    )),
    ...(await conflictsOf(
      (after: typeof FIRST_KEY = FIRST_KEY) =>
        unreservedKeysAfter(store.reads, { after, limit: BATCH_MAX }),
      async (named) => {
        const key = reservationKeyOf(named);
        const put = await reservations.put(key, reservationIdOf(datacenter, store.ids.uuid()));
        return datacenterOf(put.reservationId) === datacenter ? undefined : JSON.stringify(key);
      },
    )),
  ];
  if (conflicts.length === 0) return;
  const named = conflicts.slice(0, NAMED_MAX).join(', ');
  throw invalid(
    `in the reservation store, ${String(conflicts.length)} keys of this datacenter live elsewhere, such as ${named}`,
  );
}

/** Publishes row by row, in pages. @returns the names of those that live elsewhere for the store. */
async function conflictsOf<Row>(
  readAfter: (last?: Row) => Promise<Row[]>,
  publish: (row: Row) => Promise<string | undefined>,
): Promise<string[]> {
  const conflicts: string[] = [];
  let last: Row | undefined;
  do {
    const rows = await readAfter(last);
    const found = await Promise.all(rows.map(publish));
    conflicts.push(...found.filter((name) => name !== undefined));
    last = rows.at(-1);
  } while (last !== undefined);
  return conflicts;
}

/** How many are written by one statement. */
const ROWS_MAX = 1_000;

/**
 * Reserves the keys that were granted before there were reservations, where the database itself is the
 * store: a connect that would not start a backend then finds one that runs already.
 */
export async function reserveOldKeysHere(store: Store, datacenter: string): Promise<void> {
  let after = FIRST_KEY;
  for (;;) {
    const keys = await unreservedKeysAfter(store.reads, { after, limit: ROWS_MAX });
    const last = keys.at(-1);
    if (last === undefined) return;
    await putHomes(
      store.general,
      keys.map((key) => ({
        key: reservationKeyText(reservationKeyOf(key)),
        reservationId: reservationIdOf(datacenter, store.ids.uuid()),
      })),
    );
    after = last;
  }
}

export interface ProveDeps {
  readonly store: ReservationStore;
  /** The status of a reservation, as its own datacenter reports it. */
  readonly statusThere: (reservationId: string, key: ReservationKey) => Promise<ReservationStatus>;
}

/**
 * Walks the chain from the key's first reservation until it reaches this one. Undefined when the
 * chain does not contain it.
 *
 * A pointer that the store does not have yet is asked of the datacenter that wrote it, and put into the
 * store before it counts: a reservation is active only when the pointer to it is stored where it
 * outlives the datacenter that wrote it. If the store has another pointer by then, that one counts.
 */
export async function prove(
  deps: ProveDeps,
  reservationId: string,
  key: ReservationKey,
): Promise<Proof | undefined> {
  const { store } = deps;
  // What a nearby replica has is right; it may only lack something newer.
  const nearby = await store.readNearby(key);
  if (nearby === reservationId) return { chain: [], tokenFloor: null };
  const firstId = nearby ?? (await store.read(key));
  if (firstId === undefined) return undefined;
  const chain: string[] = [];
  let id = firstId;
  let tokenFloor: string | null = null;
  while (id !== reservationId) {
    if (chain.length > LIMITS.reservationChainMax) return undefined;
    const pointer = await pointerFrom(deps, id, key);
    if (pointer === undefined) return undefined;
    chain.push(id);
    id = pointer.toId;
    tokenFloor = pointer.tokenFloor;
  }
  return { chain, tokenFloor };
}

/** Where a reservation moved to, put into the store if only its datacenter has it. */
export async function pointerFrom(
  { store, statusThere }: ProveDeps,
  fromId: string,
  key: ReservationKey,
): Promise<ReservationPointer | undefined> {
  const stored = (await store.readPointerNearby(fromId)) ?? (await store.readPointer(fromId));
  if (stored !== undefined) return stored;
  const there = await statusThere(fromId, key);
  return there.standing === 'moved' ? store.putPointer(there.pointer) : undefined;
}
