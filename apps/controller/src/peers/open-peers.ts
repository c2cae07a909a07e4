/** The other datacenters of a controller: calls to them, and what is known of them. */
import type { DatacenterService, ReservationStoreView } from '@leasehold/api';
import { LeaseError, type Clock } from '@leasehold/keys-core';
import type { Peers } from '@leasehold/keys-core/reservations';
import type { Logger } from '@leasehold/service-kit';
import type { Job } from '../background/background.ts';
import { createPeerClient, type PeerClient } from './peer-client.ts';
import type { PeerMetrics } from './peer-metrics.ts';
import { createPeerReachability, type PeerReachability } from './peer-reachability.ts';
import type { PeerConfig } from './peers-config.ts';

/** How often each of them is probed. */
const PROBE_EVERY_MS = 3_000;

export interface OpenPeers {
  readonly peers: Peers;
  readonly service: DatacenterService;
  /** Jobs that find out which of them can be reached. */
  readonly jobs: readonly Job[];
  /** Probes all of them once. Never throws. */
  probe(): Promise<void>;
  readonly isReachable: (datacenter: string) => boolean;
  close(): Promise<void>;
}

interface OpenPeer {
  readonly client: PeerClient;
  readonly reachability: PeerReachability;
}

export function openPeers(
  config: { readonly datacenter: string; readonly peers: readonly PeerConfig[] },
  deps: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly metrics: PeerMetrics;
    readonly storeStatus: () => ReservationStoreView;
  },
): OpenPeers {
  const { datacenter } = config;
  const byName = new Map(config.peers.map((peer) => [peer.name, openPeer(peer, datacenter, deps)]));
  const all = [...byName.values()];
  const names = [...byName.keys()];
  return {
    peers: { names, get: (name) => byName.get(name)?.client },
    service: {
      peers: names,
      list: () => ({
        items: [
          {
            name: datacenter,
            isLocal: true,
            isReachable: true,
            since: null,
            code: null,
            roundTripMs: null,
          },
          ...[...byName].map(([name, { reachability }]) => {
            const away = reachability.away();
            const { since = null, code = null } = away ?? {};
            const { roundTripMs } = reachability;
            return { name, isLocal: false, isReachable: away === null, since, code, roundTripMs };
          }),
        ],
        store: deps.storeStatus(),
      }),
      away(name) {
        const away = byName.get(name)?.reachability.away() ?? null;
        return away === null ? undefined : { datacenter: name, ...away };
      },
      async call(name, call) {
        const peer = byName.get(name);
        if (peer !== undefined) return peer.client.call(call);
        throw new LeaseError('reservation.unknown_datacenter', undefined, {
          details: { datacenter: name, known: [datacenter, ...names] },
        });
      },
    },
    jobs: all.map(({ client }) => ({
      name: `datacenter ${client.datacenter}`,
      everyMs: PROBE_EVERY_MS,
      run: () => client.probe(),
    })),
    async probe() {
      await Promise.all(all.map(({ client }) => client.probe()));
    },
    isReachable: (name) => byName.get(name)?.reachability.away() === null,
    async close() {
      await Promise.all(all.map(({ client }) => client.close()));
    },
  };
}

function openPeer(
  peer: PeerConfig,
  from: string,
  deps: { readonly clock: Clock; readonly log: Logger; readonly metrics: PeerMetrics },
): OpenPeer {
  const { name: datacenter } = peer;
  const { clock, log, metrics } = deps;
  const reachability = createPeerReachability({
    datacenter,
    clock,
    onChange: (code) => {
      if (code === null) log.info({ datacenter }, 'datacenter can be reached again');
      else log.warn({ datacenter, code }, 'datacenter cannot be reached');
    },
  });
  const client = createPeerClient(peer, {
    from,
    clock,
    reachability,
    onCall: (outcome) => {
      metrics.peerCall(datacenter, outcome);
    },
  });
  return { client, reachability };
}
