import {
  createPostgresReservationStore,
  type ReservationStore,
} from '../reservations/reservation-store.ts';
import type { Peer, Peers, ReservationService } from '../reservations/reservation-types.ts';
import { createReservationService } from '../reservations/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { GivenUp, GivenUpDatacenters } from '../reservations/given-up.ts';
import type { SessionRef } from '../fleet/sql/drone-sessions.ts';
import type { ConnectInput, ConnectResult } from '../keys/key-types.ts';
import { aDrone } from './fleet-fixture.ts';
import { openKernel } from './kernel-fixture.ts';
import { CLIENT, connectInput, openKeys, type Keys } from './keys-fixture.ts';

/** A call that leaves a controller: to the reservation store, or to another datacenter. */
export interface OutsideCall {
  readonly from: string;
  readonly to: string;
  readonly what: string;
  /** Counted from 0 since `outside` was set; calls can be nested. */
  readonly number: number;
}

/** Called around each outside call; what it throws reaches the caller. */
export interface Outside {
  before(call: OutsideCall): void;
  after(call: OutsideCall): void;
}

/** One datacenter: its own database, its own controller. */
export interface TestDatacenter extends Keys {
  readonly name: string;
  readonly drone: SessionRef;
  /** The controller's service; a restart makes a new one, which remembers nothing. */
  service: ReservationService;
}

export interface TestDatacenters {
  readonly all: readonly TestDatacenter[];
  get(name: string): TestDatacenter;
  /** The store that all share, on real PostgreSQL, in a database of its own. */
  readonly reservations: ReservationStore;
  /** From now on nothing reaches or leaves this datacenter. */
  cut(name: string): void;
  heal(name: string): void;
  /** From now on nothing reaches it, and the others give its keys other homes. */
  giveUp(name: string): void;
  /** Watches or breaks outside calls; undefined to leave them alone. */
  outside: Outside | undefined;
  /** Called when a connect has chosen a drone, and before it asks for the grant. */
  beforeGrant: (() => Promise<void>) | undefined;
  /** Restarts all controllers. */
  restart(): void;
}

/** Datacenters with a drone each, which reach each other directly and share one reservation store. */
export async function openDatacenters(
  names: readonly string[] = ['dc1', 'dc2', 'dc3'],
): Promise<TestDatacenters> {
  const shared = await openKernel();
  const reservations = createPostgresReservationStore(shared.store);
  const away = new Set<string>();
  const lost = new Map<string, GivenUp>();
  const givenUp: GivenUpDatacenters = { find: (name) => lost.get(name), list: () => [] };
  const all: TestDatacenter[] = [];
  const callCounts = new Map<Outside | undefined, number>();

  const world: TestDatacenters = {
    all,
    reservations,
    outside: undefined,
    beforeGrant: undefined,
    get(name) {
      const found = all.find((one) => one.name === name);
      if (found === undefined) throw new Error(`no datacenter ${name}`);
      return found;
    },
    cut: (name) => void away.add(name),
    heal: (name) => void away.delete(name),
    giveUp(name) {
      away.add(name);
      lost.set(name, givenUpNow(name));
    },
    restart() {
      for (const one of all) one.service = serviceOf(one);
    },
  };

  async function call<T>(
    from: string,
    to: string,
    what: string,
    ask: () => Promise<T>,
  ): Promise<T> {
    const { outside } = world;
    const outsideCall = { from, to, what, number: callCounts.get(outside) ?? 0 };
    callCounts.set(outside, outsideCall.number + 1);
    outside?.before(outsideCall);
    if (away.has(from) || away.has(to)) {
      throw to === STORE ? new LeaseError('reservation.store_unreachable') : unreachable(to);
    }
    const answer = await ask();
    outside?.after(outsideCall);
    return answer;
  }

  function storeFor(from: string): ReservationStore {
    const at = <T>(what: string, ask: () => Promise<T>): Promise<T> => call(from, STORE, what, ask);
    return {
      // As what several datacenters share, though it is a database here.
      kind: 'etcd',
      put: (key, id) => at('put', () => reservations.put(key, id)),
      readNearby: (key) => at('readNearby', () => reservations.readNearby(key)),
      read: (key) => at('read', () => reservations.read(key)),
      putPointer: (pointer) => at('putPointer', () => reservations.putPointer(pointer)),
      readPointerNearby: (id) => at('readPointerNearby', () => reservations.readPointerNearby(id)),
      readPointer: (id) => at('readPointer', () => reservations.readPointer(id)),
      close: () => Promise.resolve(),
    };
  }

  function peersFor(from: string): Peers {
    const others = names.filter((name) => name !== from);
    return {
      names: others,
      get: (to) => (others.includes(to) ? peer(from, to) : undefined),
    };
  }

  function peer(from: string, to: string): Peer {
    return {
      datacenter: to,
      assertReachable() {
        if (away.has(to)) throw unreachable(to);
      },
      offered: () => call(from, to, 'offers', () => world.get(to).offered()),
      connect: (input, caller, signal) =>
        call(from, to, 'connect', () => world.get(to).service.connectHere(input, caller, signal)),
      reservationStatus: (id, key) =>
        call(from, to, 'reservationStatus', () => world.get(to).service.reservationStatus(id, key)),
      move: (input, caller) =>
        call(from, to, 'move', () => world.get(to).service.moveHere(input, caller)),
    };
  }

  function serviceOf({
    name,
    store,
    keys,
    offered,
  }: Omit<TestDatacenter, 'service'>): ReservationService {
    return createReservationService({
      store,
      keys,
      offered,
      reservations: storeFor(name),
      peers: peersFor(name),
      givenUp,
    });
  }

  for (const name of names) {
    const keys = await openKeys({
      datacenter: name,
      afterChoice: async () => world.beforeGrant?.(),
    });
    const drone = await aDrone(keys.store.general, { datacenter: name, capacity: 10_000 });
    const one = { ...keys, name, drone };
    all.push({ ...one, service: serviceOf(one) });
  }
  return world;
}

const STORE = 'the store';

function unreachable(datacenter: string): LeaseError {
  return new LeaseError('reservation.datacenter_unreachable', undefined, {
    details: { datacenter },
  });
}

function givenUpNow(datacenter: string): GivenUp {
  const [at, by, reason] = ['2026-01-01T00:00:00.000Z', 'alice', 'it burnt down'];
  return {
    datacenter,
    declaredAt: at,
    declaredBy: by,
    declaredIn: 'dc1',
    reason,
    opened: { at, by, reason, tokenFloor: '1', isAbandoned: true },
  };
}

/** Connects to the key `demo` through a datacenter, unless `change` says otherwise. */
export function connectAt(
  at: Pick<TestDatacenter, 'service'>,
  change: Partial<ConnectInput> = {},
  datacenter?: string,
): Promise<ConnectResult> {
  const { signal } = new AbortController();
  return at.service.connect({ ...connectInput(), ...change }, CLIENT, signal, { datacenter });
}
