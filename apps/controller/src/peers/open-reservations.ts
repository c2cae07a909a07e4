/**
 * What a controller does about reservations before it is ready, and the store that it then uses.
 *
 * With one datacenter the store is its own PostgreSQL. With etcd a start has duties, see `createDuties`.
 * While etcd is unreachable a controller starts all the same, if this database has told it what lives here
 * and was not restored: keys whose home is known go on working. The duties are carried out when etcd
 * is back; until then nothing is reserved.
 */
import type { ReservationStoreView } from '@leasehold/api';
import { invariant, LeaseError } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import {
  assertOwn,
  createDuties,
  createEtcdReservationStore,
  createGiveUpService,
  createKnownGivenUp,
  createNoGiveUpService,
  createOwnStanding,
  createPostgresReservationStore,
  createRememberingStore,
  invalid,
  isSynced,
  NONE_GIVEN_UP,
  noteMembership,
  PUBLISHING,
  readMembership,
  registerHere,
  reserveOldKeysHere,
  type Duties,
  type EtcdOptions,
  type EtcdReservationStore,
  type GivenUpDatacenters,
  type GiveUpService,
  type Membership,
  type OwnStanding,
  type PeerProbes,
  type ReservationStore,
} from '@leasehold/keys-core/reservations';
import type { Logger } from '@leasehold/service-kit';
import { runInBackground } from '../background.ts';

interface ReservationsConfig {
  readonly datacenter: string;
  /** The names of the other datacenters. */
  readonly peers: readonly string[];
  readonly etcd: EtcdOptions | null;
  /** The longest time for which a key is granted here. */
  readonly keyTtlMs: number;
  /** For how long after the last contact with etcd a controller that was started since runs without it. */
  readonly startAloneMs: number;
}

interface ReservationsDeps {
  /** A database whose epoch has been checked. */
  readonly store: Store;
  readonly log: Logger;
}

export interface OpenReservations {
  readonly store: ReservationStore;
  /** Whether the store can decide now where a fresh key lives. */
  readonly storeStatus: () => ReservationStoreView;
  readonly givenUp: GivenUpDatacenters;
  /** What gives up another datacenter. */
  readonly giveUpOf: (peers: PeerProbes) => GiveUpService;
  /** Rejects when this controller must end: its datacenter was given up, or may have been. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** How often to check whether etcd is reachable, and whether it must be asked or told something. */
const LOOK_EVERY_MS = 2_000;

/**
 * @throws {LeaseError} `config.invalid` when what is configured would give a key two homes;
 * `reservation.store_unreachable` when etcd is unreachable and there is something that it must be told or asked.
 */
export async function openReservations(
  config: ReservationsConfig,
  deps: ReservationsDeps,
): Promise<OpenReservations> {
  const membership = await readMembership(deps.store.general);
  assertNamed(membership, config.datacenter);
  return config.etcd === null
    ? openAlone(config, membership, deps)
    : openShared({ ...config, etcd: config.etcd }, deps);
}

async function openAlone(
  { datacenter, peers }: ReservationsConfig,
  membership: Membership,
  { store }: ReservationsDeps,
): Promise<OpenReservations> {
  if (peers.length > 0) {
    throw invalid(
      `LEASEHOLD_PEERS names ${peers.join(', ')}, but LEASEHOLD_ETCD is not set: without a shared store, two datacenters could each be the home of the same key`,
    );
  }
  if (membership.storeId !== null) {
    throw invalid(
      'LEASEHOLD_ETCD is not set, and the reservations of this database are in etcd: keys that live in other datacenters would be given a second home',
    );
  }
  const { clusterId, epoch } = membership;
  invariant(epoch !== null, 'the epoch of the database has been checked');
  assertOwn(datacenter, await registerHere(store.general, datacenter, clusterId), clusterId);
  // Registered for the first time: it may be older than reservations are.
  if (membership.datacenter === null) await reserveOldKeysHere(store, datacenter);
  // No key has ever left it.
  await noteMembership(store.general, { datacenter, syncedEpoch: epoch });
  const reservations = createPostgresReservationStore(store);
  return {
    store: reservations,
    storeStatus: () => ({ kind: 'postgres', isReachable: true, since: null }),
    givenUp: NONE_GIVEN_UP,
    giveUpOf: () => createNoGiveUpService(datacenter),
    failed: new Promise(() => undefined),
    close: () => reservations.close(),
  };
}

async function openShared(
  { datacenter, etcd, keyTtlMs, startAloneMs }: ReservationsConfig & { etcd: EtcdOptions },
  { store, log }: ReservationsDeps,
): Promise<OpenReservations> {
  const status = createStoreStatus(log);
  const shared = createEtcdReservationStore({
    ...etcd,
    clock: store.clock,
    onAsked: status.note,
  });
  const reservations = createRememberingStore(shared, {
    store,
    onForgotten: (error) =>
      log.warn({ err: error }, 'an answer of the reservation store could not be cached'),
  });
  const duties = createDuties({ datacenter, shared, reservations, store, log });
  const known = createKnownGivenUp({ shared: shared.givenUp, store, log });
  const standing = createOwnStanding({
    datacenter,
    shared: shared.givenUp,
    known,
    store,
    keyTtlMs,
    startAloneMs,
  });
  let leave: ReturnType<typeof createLeaving>;
  try {
    await known.load();
    leave = createLeaving(
      standing,
      store,
      await start({ duties, standing }, { shared, store, log }),
    );
  } catch (error) {
    await shared.close();
    throw error;
  }
  const openedAt = new Date().toISOString();
  const stop = runInBackground(
    [
      // By itself: a datacenter that was given up leaves, whatever keeps or fails its duties.
      { name: 'own datacenter', everyMs: LOOK_EVERY_MS, run: () => leave.look() },
      {
        name: 'reservation store',
        everyMs: LOOK_EVERY_MS,
        // That etcd is unreachable was logged when this was first noticed.
        run: () => duties.catchUp().catch(unlessAway),
      },
    ],
    { store, log },
  );
  return {
    store: withoutPutsUntil(duties.isDone, reservations),
    storeStatus() {
      const now = status.now();
      if (duties.isDone() || !now.isReachable) return now;
      return { ...now, isReachable: false, since: openedAt };
    },
    givenUp: known,
    giveUpOf: (peers) => createGiveUpService({ store, shared: shared.givenUp, known, peers }),
    failed: leave.failed,
    async close() {
      await stop();
      await reservations.close();
    },
  };
}

/**
 * Carries the duties out, or leaves them for when etcd is back if nothing depends on them until then.
 * @returns for how long the controller may run without etcd, because it could not ask it.
 */
async function start(
  { duties, standing }: { readonly duties: Duties; readonly standing: OwnStanding },
  { shared, store, log }: ReservationsDeps & { readonly shared: EtcdReservationStore },
): Promise<number> {
  try {
    // A datacenter that was given up does nothing at all.
    await standing.confirm();
    await duties.carryOut();
    return Infinity;
  } catch (error) {
    unlessAway(error);
    const { storeId, ...membership } = await readMembership(store.general);
    if (storeId === null || storeId === PUBLISHING) throw cannotStart(NOT_TOLD, error);
    if (!isSynced({ storeId, ...membership })) throw cannotStart(NOT_READ_BACK, error);
    const aloneForMs = await standing.readAloneForMs();
    if (aloneForMs <= 0) throw cannotStart(NOT_CONFIRMED, error);
    log.warn(
      { err: error, aloneForMs: Math.round(aloneForMs) },
      'etcd cannot be reached: keys whose home is known still work, for as long as this datacenter cannot have been given up',
    );
    shared.expectCluster(storeId);
    return aloneForMs;
  }
}

/**
 * The same store, which reserves nothing before a condition holds: a store that was restored may have
 * forgotten that a key lives here, until it has been told again.
 */
function withoutPutsUntil(isMet: () => boolean, store: ReservationStore): ReservationStore {
  return {
    ...store,
    async put(key, reservationId) {
      if (isMet()) return store.put(key, reservationId);
      throw new LeaseError(
        'reservation.store_unreachable',
        'This controller has not copied its reservations to etcd yet.',
      );
    },
  };
}

const NOT_TOLD = 'this datacenter has not copied its reservations to it yet';
const NOT_READ_BACK =
  'this database was restored, and only etcd knows which keys have left it since';

function cannotStart(why: string, cause: unknown): LeaseError {
  return new LeaseError(
    'reservation.store_unreachable',
    `etcd (LEASEHOLD_ETCD) did not answer, and ${why}. Nothing was started.`,
    { cause },
  );
}

function assertNamed({ datacenter }: Membership, configured: string): void {
  if (datacenter === null || datacenter === configured) return;
  throw invalid(
    `LEASEHOLD_DATACENTER is "${configured}", and this database was registered as "${datacenter}": its reservations contain that name`,
  );
}

/** The outcome of calls to etcd; every change is logged once. */
function createStoreStatus(log: Logger): {
  readonly note: (failure: unknown) => void;
  readonly now: () => ReservationStoreView;
} {
  let since: string | null = null;
  return {
    note(failure) {
      const isReached = failure === undefined;
      if (isReached === (since === null)) return;
      since = isReached ? null : new Date().toISOString();
      if (isReached) log.info('etcd answers again');
      else log.warn({ err: failure }, 'etcd does not answer: no fresh key gets a home from here');
    },
    now: () => ({ kind: 'etcd', isReachable: since === null, since }),
  };
}

// When a controller must end because its datacenter was given up, or may have been.

const NOT_CONFIRMED =
  'this datacenter was last in touch with it so long ago (LEASEHOLD_START_WITHOUT_ETCD_MS) that it may have been given up since';

/** Asks whether this datacenter was given up, and ends the controller when it was, or may have been. */
function createLeaving(
  standing: OwnStanding,
  { clock }: Pick<Store, 'clock'>,
  aloneForMs: number,
): { readonly failed: Promise<never>; look(): Promise<void> } {
  let aloneUntilMs = clock.nowMs() + aloneForMs;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  // A caller that awaits it gets the error; nobody has to.
  failed.catch(() => undefined);
  return {
    failed,
    async look() {
      try {
        await standing.confirm();
        // From now on it has seen for itself that it was not: it goes on while etcd is unreachable.
        aloneUntilMs = Infinity;
      } catch (error) {
        const isOver = clock.nowMs() >= aloneUntilMs;
        const isGivenUp =
          error instanceof LeaseError && error.code === 'reservation.datacenter_given_up';
        if (isGivenUp) fail(error);
        else if (isOver) fail(cannotGoOn(error));
        else unlessAway(error);
      }
    },
  };
}

function cannotGoOn(cause: unknown): LeaseError {
  return new LeaseError(
    'reservation.store_unreachable',
    `etcd (LEASEHOLD_ETCD) has not answered since this controller was started, and ${NOT_CONFIRMED}.`,
    { cause },
  );
}

/** That etcd is unreachable ends nothing by itself. */
function unlessAway(error: unknown): void {
  if (error instanceof LeaseError && error.code === 'reservation.store_unreachable') return;
  throw error;
}
