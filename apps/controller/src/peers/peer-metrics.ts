import type { Registry } from '@leasehold/service-kit';
import type { CallOutcome } from './peer-calls.ts';
import { Counter, Gauge } from 'prom-client';

/** What is counted about datacenters and the homes of keys. */
export interface PeerMetrics {
  readonly resolved: (from: 'cache' | 'store' | 'nowhere') => void;
  readonly peerCall: (datacenter: string, outcome: CallOutcome) => void;
}

export function createPeerMetrics(registry: Registry): PeerMetrics {
  const registers = [registry];
  const resolves = new Counter({
    name: 'leasehold_reservation_resolves_total',
    help: 'Homes of keys that were looked up, by where the answer came from.',
    labelNames: ['from'],
    registers,
  });
  const calls = new Counter({
    name: 'leasehold_peer_calls_total',
    help: 'Calls to other datacenters, by outcome: refused is an error that it answered.',
    labelNames: ['datacenter', 'outcome'],
    registers,
  });
  return {
    resolved: (from) => {
      resolves.inc({ from });
    },
    peerCall: (datacenter, outcome) => {
      calls.inc({ datacenter, outcome });
    },
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
  new Gauge({
    name: 'leasehold_peer_up',
    help: 'Whether a datacenter can be reached from this controller: 1 or 0.',
    labelNames: ['datacenter'],
    registers: [registry],
    collect() {
      for (const datacenter of read.peers) {
        this.set({ datacenter }, read.isReachable(datacenter) ? 1 : 0);
      }
    },
  });
  new Gauge({
    name: 'leasehold_reservation_store_up',
    help: 'Whether the reservation store can be reached: 1 or 0.',
    registers: [registry],
    collect() {
      this.set(read.isStoreReachable() ? 1 : 0);
    },
  });
}
