/**
 * What a controller does about reservations before it is ready, and the store that it then uses.
 *
 * With one datacenter the store is its own PostgreSQL. With etcd a start
 *
 * 1. registers the datacenter's name, and stops if another database has it;
 * 2. tells a store that does not have it all, being new or restored, what lives here;
 * 3. hears from the store what has left, when this database was restored since it last did.
 *
 * While etcd is away a controller starts all the same, if there is nothing of that to do: keys whose
 * home is known go on working.
 */
import { LeaseError, invariant } from '@leasehold/keys-core';
import {
  createEtcdReservationStore,
  createPostgresReservationStore,
  createRememberingStore,
  noteMembership,
  readMembership,
  registerHere,
  type EtcdOptions,
  type EtcdReservationStore,
  type Membership,
  type ReservationStore,
} from '@leasehold/keys-core/reservations';
import type { Store } from '@leasehold/keys-core/store';
import type { Logger } from '@leasehold/service-kit';
import { runInBackground } from '../background.ts';
import { hasForgotten, publishAll } from './publish.ts';
import { readBack } from './read-back.ts';
import { createStoreStanding, type StoreStanding } from './store-standing.ts';

export interface ReservationsConfig {
  readonly datacenter: string;
  /** The names of the other datacenters. */
  readonly peers: readonly string[];
  readonly etcd: EtcdOptions | null;
}

export interface ReservationsDeps {
  /** A database whose epoch has been checked. */
  readonly store: Store;
  readonly log: Logger;
}

export interface OpenReservations {
  readonly store: ReservationStore;
  /** Whether the store can decide now where a fresh key lives. */
  readonly standing: () => StoreStanding;
  close(): Promise<void>;
}

/** How often etcd is asked whether it is there. */
const LOOK_EVERY_MS = 5_000;

/**
 * @throws {LeaseError} `config.invalid` when what is configured would give a key two homes;
 * `reservation.store_unreachable` when etcd is away and there is something that it must be told or asked.
 */
export async function openReservations(
  config: ReservationsConfig,
  deps: ReservationsDeps,
): Promise<OpenReservations> {
  const membership = await readMembership(deps.store.prisma);
  assertNamed(membership, config.datacenter);
  return config.etcd === null
    ? openAlone(config, membership, deps)
    : openShared({ ...config, etcd: config.etcd }, membership, deps);
}

async function openAlone(
  { datacenter, peers }: ReservationsConfig,
  membership: Membership,
  { store }: ReservationsDeps,
): Promise<OpenReservations> {
  if (peers.length > 0) {
    throw invalid(
      `LEASEHOLD_PEERS names ${peers.join(', ')}, and LEASEHOLD_ETCD nothing: without a store that all share, two datacenters would each give the same key a home`,
    );
  }
  if (membership.storeId !== null) {
    throw invalid(
      'LEASEHOLD_ETCD is not set, and the reservations of this database are in etcd: keys that live in other datacenters would be given a second home',
    );
  }
  const { clusterId } = membership;
  assertOwn(datacenter, await registerHere(store.prisma, datacenter, clusterId), clusterId);
  await noteMembership(store.prisma, { datacenter });
  const reservations = createPostgresReservationStore(store);
  return {
    store: reservations,
    standing: () => ({ kind: 'postgres', isReachable: true, since: null }),
    close: () => reservations.close(),
  };
}

async function openShared(
  { datacenter, etcd }: ReservationsConfig & { readonly etcd: EtcdOptions },
  membership: Membership,
  { store, log }: ReservationsDeps,
): Promise<OpenReservations> {
  const standing = createStoreStanding(log);
  const shared = createEtcdReservationStore({
    ...etcd,
    clock: store.clock,
    onAsked: standing.note,
  });
  const reservations = createRememberingStore(shared, {
    store,
    onForgotten: (error) => {
      log.warn({ err: error }, 'what was learned of the reservation store was not written down');
    },
  });
  let isRegistered = false;
  try {
    isRegistered = await start({ datacenter, membership, shared, reservations, store, log });
  } catch (error) {
    await shared.close();
    throw error;
  }
  const look = async (): Promise<void> => {
    if (isRegistered) {
      await shared.clusterId();
      return;
    }
    const holder = await shared.register(datacenter, membership.clusterId);
    isRegistered = true;
    if (holder === membership.clusterId) return;
    log.error({ datacenter }, 'another database has this name; no fresh key gets a home from here');
    await shared.close();
  };
  const stop = runInBackground(
    // That etcd is away has been logged when it was first seen.
    [{ name: 'reservation store', everyMs: LOOK_EVERY_MS, run: () => look().catch(unlessAway) }],
    log,
    () => store.ids.random(),
  );
  return {
    store: reservations,
    standing: standing.now,
    async close() {
      await stop();
      await reservations.close();
    },
  };
}

/** What a start is done with. */
interface Start {
  readonly datacenter: string;
  readonly membership: Membership;
  readonly shared: EtcdReservationStore;
  readonly reservations: ReservationStore;
  readonly store: Store;
  readonly log: Logger;
}

/** @returns whether the datacenter's name is registered; if not, that is still to be seen to. */
async function start(from: Start): Promise<boolean> {
  const { datacenter, membership, shared, store, log } = from;
  const { clusterId, storeId, syncedEpoch, epoch } = membership;
  invariant(epoch !== null, 'the epoch of the database has been checked');
  const isSynced = syncedEpoch === epoch;
  let etcdId: string;
  try {
    etcdId = await shared.clusterId();
    assertOwn(datacenter, await shared.register(datacenter, clusterId), clusterId);
  } catch (error) {
    unlessAway(error);
    if (storeId === null || !isSynced) throw cannotStart(storeId, error);
    log.warn({ err: error }, 'etcd is away: keys whose home is known here go on working');
    shared.expectCluster(storeId);
    return false;
  }
  shared.expectCluster(etcdId);
  await noteMembership(store.prisma, { datacenter });
  if (storeId !== etcdId || (await hasForgotten(from))) {
    await publishAll(from);
    await noteMembership(store.prisma, { storeId: etcdId });
  }
  if (!isSynced) {
    const departed = await readBack(from);
    await noteMembership(store.prisma, { syncedEpoch: epoch });
    if (departed > 0) log.info({ departed }, 'read back which keys have left this datacenter');
  }
  return true;
}

function unlessAway(error: unknown): void {
  if (error instanceof LeaseError && error.code === 'reservation.store_unreachable') return;
  throw error;
}

function cannotStart(storeId: string | null, cause: unknown): LeaseError {
  const why =
    storeId === null
      ? 'this datacenter has not told it yet what lives here'
      : 'this database was restored, and etcd alone knows which keys have left it since';
  return new LeaseError(
    'reservation.store_unreachable',
    `etcd (LEASEHOLD_ETCD) did not answer, and ${why}. Nothing was started.`,
    { cause },
  );
}

function assertNamed({ datacenter }: Membership, configured: string): void {
  if (datacenter === null || datacenter === configured) return;
  throw invalid(
    `LEASEHOLD_DATACENTER is "${configured}", and this database was registered as "${datacenter}": its reservations bear that name`,
  );
}

function assertOwn(datacenter: string, holderId: string, clusterId: string): void {
  if (holderId === clusterId) return;
  throw invalid(
    `LEASEHOLD_DATACENTER is "${datacenter}", and that is the name of the database with the cluster id ${holderId}; this one's is ${clusterId}`,
  );
}

function invalid(problem: string): LeaseError {
  return new LeaseError('config.invalid', `The configuration is not valid: ${problem}.`, {
    details: { problems: [problem] },
  });
}
