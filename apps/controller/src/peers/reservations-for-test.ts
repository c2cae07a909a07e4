/** Datacenters with their reservations only: databases, and what a start makes of them. */
import { randomUUID } from 'node:crypto';
import {
  KEY_LADDERS,
  HEARTBEAT_MS,
  serviceLadder,
  type ReservationKey,
} from '@leasehold/keys-core';
import { createKeyService } from '@leasehold/keys-core/keys';
import {
  createReservationService,
  type Peer,
  type ReservationService,
} from '@leasehold/keys-core/reservations';
import { checkEpoch, createDatabase, openStore, type Store } from '@leasehold/keys-core/postgres';
import { chooseDrone } from '@leasehold/keys-core/fleet';
import { createLeaseStore } from '@leasehold/keys-core/grants';
import { createBootClock, createLogger, systemIds } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import { openReservations, type OpenReservations } from './open-reservations.ts';

const TTL_MS = 5_000;

/** A database whose epoch has been checked, as at a controller's start. */
export async function openDatabase(datacenter: string, databaseUrl: string): Promise<Store> {
  const clock = createBootClock();
  const store = openStore({ databaseUrl, datacenter, clock, ids: systemIds() });
  onTestFinished(() => store.close());
  await checkEpoch(store.renewals, TTL_MS);
  return store;
}

/** A database that is not a copy. */
export async function newDatabase(): Promise<string> {
  const { url } = await createTestDatabase();
  const store = openStore({
    databaseUrl: url,
    datacenter: 'none',
    clock: createBootClock(),
    ids: systemIds(),
  });
  await store.general.$queryRaw`
    update reservation_membership set cluster_id = ${randomUUID()}::uuid returning 1 as made`;
  await store.close();
  return url;
}

/** A copy of a database that nobody uses at the moment: what a backup would have. */
export async function copyDatabase(databaseUrl: string): Promise<string> {
  const url = new URL(databaseUrl);
  const source = url.pathname.slice(1);
  url.pathname = `/${source.slice(0, 40)}_${randomUUID().slice(0, 8)}`;
  await createDatabase(url.href, source);
  return url.href;
}

/** Makes a database look restored: of another timeline. Its hold-off is over at once. */
export async function markRestored(store: Store): Promise<void> {
  await store.general.$executeRaw`update database_epoch set timeline = timeline - 1`;
  await checkEpoch(store.renewals, TTL_MS);
  await store.general.$executeRaw`update database_epoch set hold_off_until = null`;
}

export interface StartOptions {
  readonly store: Store;
  readonly datacenter: string;
  readonly peers?: readonly string[];
  /** etcd's URLs; null for a datacenter without. */
  readonly endpoints: readonly string[] | null;
  /** For how long it runs without etcd if it is started so; a minute by default. */
  readonly startAloneMs?: number;
}

export async function startReservations(options: StartOptions): Promise<OpenReservations> {
  const { store, datacenter, peers = ['dc9'], endpoints, startAloneMs = 60_000 } = options;
  const opened = await openReservations(
    {
      datacenter,
      peers,
      keyTtlMs: TTL_MS,
      startAloneMs,
      etcd: endpoints === null ? null : { endpoints },
    },
    { store, log: createLogger({ name: 'controller', level: 'silent' }) },
  );
  onTestFinished(() => opened.close());
  return opened;
}

/** The reservations face on it, which reaches `peer` without a network in between. */
export function serviceOn(
  store: Store,
  { store: reservations }: OpenReservations,
  peer: () => { readonly name: string; readonly service: ReservationService },
): ReservationService {
  const { datacenter } = store;
  const heartbeatMs = HEARTBEAT_MS.fast;
  const keys = createKeyService({
    store,
    leases: createLeaseStore(store),
    ladder: KEY_LADDERS.fast,
    heartbeatMs,
    chooseDrone: (wanted) =>
      chooseDrone(store, { ...wanted, datacenter, heartbeatMs, random: () => 0.5 }),
  });
  const peerOf = (name: string): Peer => ({
    datacenter: name,
    assertReachable: () => undefined,
    connect: (...call) => peer().service.connectHere(...call),
    reservationStatus: (...call) => peer().service.reservationStatus(...call),
    move: (input, caller) => peer().service.moveHere(input, caller),
  });
  return createReservationService({
    store,
    reservations,
    keys,
    peers: {
      get names() {
        return [peer().name];
      },
      get: (name) => (name === peer().name ? peerOf(name) : undefined),
    },
  });
}

/** Whether a key is granted under a reservation, by the database that judges it. What is granted is released. */
export async function isGrantedUnder(
  store: Store,
  [namespace = '', name = '']: ReservationKey,
  homeReservation: string,
): Promise<boolean> {
  const leases = createLeaseStore(store);
  const common = { holder: 'a', principal: 'a', actor: 'a' };
  const outcome = await leases
    .grant({
      ...common,
      face: 'key',
      namespace,
      name,
      leaseId: randomUUID(),
      tag: '',
      comment: null,
      metadata: null,
      ladder: serviceLadder(TTL_MS),
      homeReservation,
    })
    .catch(() => undefined);
  if (outcome?.outcome !== 'granted') return false;
  const { leaseId, fencingToken } = outcome.grant;
  await leases.release('key', { ...common, leaseId, fencingToken, result: 'ok', detail: null });
  return true;
}
