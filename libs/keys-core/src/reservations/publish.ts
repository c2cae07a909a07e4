import { LeaseError } from '../kernel/errors/index.ts';
import {
  datacenterOf,
  parseReservationKey,
  reservationIdOf,
  reservationKeyOf,
  reservationKeyText,
} from '../kernel/resource/reservation.ts';
import {
  firstReservationsAfter,
  newestPointers,
  newestReservations,
  pointersAfter,
  unreservedKeysAfter,
} from './sql/membership.ts';
import { putHomes } from './sql/home-rows.ts';
import type { EtcdReservationStore } from './etcd/etcd-store.ts';
import type { ReservationStore } from './store/reservation-store.ts';
import type { Store } from '../postgres/open-store.ts';

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

/**
 * Whether a store that had everything lacks some of the newest rows of this datacenter: then it was
 * restored from a backup in a way that kept its id.
 */
export async function hasForgotten({ datacenter, shared, store }: Publishing): Promise<boolean> {
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
  const conflicts = [
    ...(await publishReservations(publishing)),
    ...(await publishPointers(publishing)),
    ...(await reserveOldKeys(publishing)),
  ];
  if (conflicts.length === 0) return;
  const named = conflicts.slice(0, NAMED_MAX).join(', ');
  const problem = `in the reservation store, ${String(conflicts.length)} keys of this datacenter live elsewhere, such as ${named}`;
  throw new LeaseError('config.invalid', `The configuration is not valid: ${problem}.`, {
    details: { problems: [problem] },
  });
}

async function publishReservations({ datacenter, shared, store }: Publishing): Promise<string[]> {
  const conflicts: string[] = [];
  let afterKey = '';
  for (;;) {
    const page = { afterKey, limit: BATCH_MAX };
    const rows = await firstReservationsAfter(store.reads, datacenter, page);
    const puts = await Promise.all(
      rows.map(({ key, reservationId }) => shared.put(parseReservationKey(key), reservationId)),
    );
    conflicts.push(
      ...rows.filter((_, index) => puts[index]?.outcome !== 'reserved').map(({ key }) => key),
    );
    const last = rows.at(-1);
    if (last === undefined) return conflicts;
    afterKey = last.key;
  }
}

async function publishPointers({ datacenter, shared, store }: Publishing): Promise<string[]> {
  const conflicts: string[] = [];
  let afterId = '';
  for (;;) {
    const page = { afterId, limit: BATCH_MAX };
    const pointers = await pointersAfter(store.reads, datacenter, page);
    const stored = await Promise.all(pointers.map((pointer) => shared.putPointer(pointer)));
    conflicts.push(
      ...pointers
        .filter(({ toId }, index) => stored[index]?.toId !== toId)
        .map(({ fromId }) => fromId),
    );
    const last = pointers.at(-1);
    if (last === undefined) return conflicts;
    afterId = last.fromId;
  }
}

/** How many are written by one statement. */
const ROWS_MAX = 1_000;

/**
 * Reserves the keys that were granted before there were reservations, where the database itself is the
 * store: a connect that would not start a backend then finds one that runs already.
 */
export async function reserveOldKeysHere(store: Store, datacenter: string): Promise<void> {
  let after = { namespace: '', name: '' };
  for (;;) {
    const keys = await unreservedKeysAfter(store.reads, { after, limit: ROWS_MAX });
    const last = keys.at(-1);
    if (last === undefined) return;
    await putHomes(
      store.prisma,
      keys.map((key) => ({
        key: reservationKeyText(reservationKeyOf(key)),
        reservationId: reservationIdOf(datacenter, store.ids.uuid()),
      })),
    );
    after = last;
  }
}

async function reserveOldKeys({ datacenter, reservations, store }: Publishing): Promise<string[]> {
  const conflicts: string[] = [];
  let after = { namespace: '', name: '' };
  for (;;) {
    const keys = await unreservedKeysAfter(store.reads, { after, limit: BATCH_MAX });
    const puts = await Promise.all(
      keys.map((key) =>
        reservations.put(reservationKeyOf(key), reservationIdOf(datacenter, store.ids.uuid())),
      ),
    );
    conflicts.push(
      ...keys
        .filter((_, index) => datacenterOf(puts[index]?.reservationId ?? '') !== datacenter)
        .map((key) => JSON.stringify(reservationKeyOf(key))),
    );
    const last = keys.at(-1);
    if (last === undefined) return conflicts;
    after = last;
  }
}
