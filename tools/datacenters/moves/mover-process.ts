/**
 * A controller that moves one key, as a process of its own: it ends itself with SIGKILL before or
 * after its nth call to the outside. The parent plays the other datacenters.
 */
import type { Peer, Peers, ReservationStore } from '@leasehold/keys-core/reservations';
import { openDatacenter, type DatacenterPlace } from './one-datacenter.ts';
import { peersThroughParent } from './peer-channel.ts';

/** The task of the process. */
export interface MoverTask {
  readonly place: DatacenterPlace;
  readonly others: readonly string[];
  readonly key: readonly string[];
  readonly toDatacenter: string;
  readonly killAt: { readonly call: number; readonly when: 'before' | 'after' } | null;
}

/** What it reports when it was not killed: the calls that it made, in order. */
export interface MoverSaid {
  readonly type: 'moved';
  readonly calls: readonly string[];
}

const { place, others, key, toDatacenter, killAt } = JSON.parse(process.argv[2] ?? '') as MoverTask;
const calls: string[] = [];

async function outside<T>(what: string, ask: () => Promise<T>): Promise<T> {
  const number = calls.push(what) - 1;
  if (killAt?.call === number && killAt.when === 'before') await die();
  const answer = await ask();
  if (killAt?.call === number && killAt.when === 'after') await die();
  return answer;
}

/** No code of this process runs after this. */
function die(): Promise<never> {
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => undefined);
}

function watchedStore(store: ReservationStore): ReservationStore {
  return {
    kind: store.kind,
    put: (...args) => outside('put', () => store.put(...args)),
    readNearby: (...args) => outside('readNearby', () => store.readNearby(...args)),
    read: (...args) => outside('read', () => store.read(...args)),
    putPointer: (...args) => outside('putPointer', () => store.putPointer(...args)),
    readPointerNearby: (...args) =>
      outside('readPointerNearby', () => store.readPointerNearby(...args)),
    readPointer: (...args) => outside('readPointer', () => store.readPointer(...args)),
    close: () => store.close(),
  };
}

function watchedPeers(peers: Peers): Peers {
  const watched = (peer: Peer): Peer => ({
    ...peer,
    reservationStatus: (...args) =>
      outside(`status at ${peer.datacenter}`, () => peer.reservationStatus(...args)),
    move: (...args) => outside(`move at ${peer.datacenter}`, () => peer.move(...args)),
  });
  return {
    names: peers.names,
    get(name) {
      const peer = peers.get(name);
      return peer === undefined ? undefined : watched(peer);
    },
  };
}

process.once('disconnect', () => process.exit(0));
const datacenter = openDatacenter(place, watchedPeers(peersThroughParent(others)), watchedStore);
const operator = { principal: 'o', actor: 'operator', role: 'operator', namespaces: null } as const;
await datacenter.service.move({ key, toDatacenter, reason: 'a test' }, operator);
await datacenter.close();
process.send?.({ type: 'moved', calls } satisfies MoverSaid, () => process.exit(0));
