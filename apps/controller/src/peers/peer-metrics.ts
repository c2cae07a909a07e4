import type { Registry } from 'prom-client';
import { instrumentsOf } from '../instruments.ts';
import type { CallOutcome } from './peer-client.ts';

/** What is counted about datacenters and the homes of keys. */
export function createPeerMetrics(registry: Registry) {
  const { counter } = instrumentsOf(registry);
  const resolves = counter(
    'reservation_resolves_total',
    'Homes of keys that were looked up, by where the answer came from.',
    ['from'],
  );
  const calls = counter(
    'peer_calls_total',
    'Calls to other datacenters, by outcome: refused is an error that it answered.',
    ['datacenter', 'outcome'],
  );
  return {
    resolved: (from: 'cache' | 'store' | 'nowhere') => resolves.inc({ from }),
    peerCall: (datacenter: string, outcome: CallOutcome) => calls.inc({ datacenter, outcome }),
  };
}

/** Gauges that are read when the metrics are requested. */
export function addPeerGauges(
  registry: Registry,
  read: {
    readonly peers: readonly string[];
    readonly isReachable: (datacenter: string) => boolean;
    readonly isStoreReachable: () => boolean;
  },
): void {
  const { gauge, gauges } = instrumentsOf(registry);
  gauges('peer_up', 'Whether a datacenter can be reached from this controller: 1 or 0.', {
    label: 'datacenter',
    read: () =>
      Object.fromEntries(read.peers.map((name) => [name, read.isReachable(name) ? 1 : 0])),
  });
  gauge('reservation_store_up', 'Whether the reservation store can be reached: 1 or 0.', () =>
    read.isStoreReachable() ? 1 : 0,
  );
}
