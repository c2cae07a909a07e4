import type { Caller } from '@leasehold/keys-core';
import type { Peer, Peers } from '@leasehold/keys-core/reservations';
import { openDatacenter, type DatacenterPlace, type OneDatacenter } from './one-datacenter.ts';

export const NAMES = ['dc1', 'dc2', 'dc3'] as const;
export type Name = (typeof NAMES)[number];

const CLIENT: Caller = { principal: 'c', actor: 'client', role: 'client', namespaces: null };

/** A controller of each datacenter. */
export interface Controllers {
  readonly all: Readonly<Record<Name, OneDatacenter>>;
  readonly close: () => Promise<void>;
}

/** A controller of each datacenter, which remembers nothing; they call each other directly. */
export async function freshControllers(places: readonly DatacenterPlace[]): Promise<Controllers> {
  const opened = new Map<string, OneDatacenter>();
  const at = (name: string): OneDatacenter => {
    const found = opened.get(name);
    if (found === undefined) throw new Error(`no datacenter ${name}`);
    return found;
  };
  const peerOf = (datacenter: string): Peer => ({
    datacenter,
    assertReachable: () => undefined,
    connect: (input, caller, signal) => at(datacenter).service.connectHere(input, caller, signal),
    reservationStatus: (reservationId, key) =>
      at(datacenter).service.reservationStatus(reservationId, key),
    move: (input, caller) => at(datacenter).service.moveHere(input, caller),
  });
  for (const place of places) {
    const names = NAMES.filter((name) => name !== place.name);
    const peers: Peers = {
      names,
      get: (name) => (names.some((one) => one === name) ? peerOf(name) : undefined),
    };
    opened.set(place.name, openDatacenter(place, peers));
  }
  // As controllers do before they serve: until then they trust no expiry.
  await Promise.all([...opened.values()].map(({ store }) => store.witness.look()));
  return {
    all: { dc1: at('dc1'), dc2: at('dc2'), dc3: at('dc3') },
    close: async () => {
      await Promise.all([...opened.values()].map((one) => one.close()));
    },
  };
}

/** The result of a connect. */
export interface Connected {
  readonly datacenter: string;
  readonly backendId: string;
  readonly fencingToken: bigint;
}

/** Connects to a key through one of the datacenters. */
export async function connect(all: Controllers['all'], at: Name, name: string): Promise<Connected> {
  // There is no drone that sends heartbeats.
  const stores = NAMES.map((each) => all[each].store.general);
  await Promise.all(
    stores.map((sql) => sql.$executeRaw`update drone set heartbeat_at = clock_timestamp()`),
  );
  const { datacenter, backendId, fencingToken } = await all[at].service.connect(
    {
      key: { name, namespace: '', tag: '' },
      spawn: { program: 'room', args: [], env: {} },
      waitMs: 0,
      waitFor: 'granted',
    },
    CLIENT,
    new AbortController().signal,
  );
  return { datacenter, backendId, fencingToken: BigInt(fencingToken) };
}

/** Where a key has an active reservation, as the databases record it. */
export async function activeHomes(all: Controllers['all'], name: string): Promise<string[]> {
  const counted = await Promise.all(
    NAMES.map(async (datacenter) => {
      const rows = await all[datacenter].store.general.$queryRaw<{ id: string }[]>`
        select reservation_id as id from reservation
        where key = ${JSON.stringify(['', name])} and state = 'active'`;
      return rows.map(() => datacenter);
    }),
  );
  return counted.flat();
}
