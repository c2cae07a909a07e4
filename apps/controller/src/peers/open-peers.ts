/** The other datacenters of a controller: calls to them, and what is known of them. */
import type { DatacenterService, ReservationStoreView } from '@leasehold/api';
import { LeaseError, type Clock } from '@leasehold/keys-core';
import type { GivenUpView, Peers } from '@leasehold/keys-core/reservations';
import type { Logger } from '@leasehold/service-kit';
import type { Job } from '../background.ts';
import type { createPeerMetrics } from '../metrics.ts';
import { createPeerClient } from './peer-client.ts';
import { createPeerReachability } from './peer-reachability.ts';
import type { PeerConfig } from './peers-config.ts';

/** How often each of them is probed. */
const PROBE_EVERY_MS = 3_000;

export function openPeers(
  config: { readonly datacenter: string; readonly peers: readonly PeerConfig[] },
  deps: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly metrics: ReturnType<typeof createPeerMetrics>;
    readonly storeStatus: () => ReservationStoreView;
    readonly givenUp: () => GivenUpView[];
  },
) {
  const { datacenter } = config;
  const byName = new Map(config.peers.map((peer) => [peer.name, openPeer(peer, datacenter, deps)]));
  const all = [...byName.values()];
  const names = [...byName.keys()];
  const peers: Peers = { names, get: (name) => byName.get(name)?.client };
  const service: DatacenterService = {
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
      givenUp: deps.givenUp(),
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
  };
  return {
    ...{ peers, service },
    /** Jobs that find out which of them can be reached. */
    jobs: all.map(({ client }): Job => ({
      name: `datacenter ${client.datacenter}`,
      everyMs: PROBE_EVERY_MS,
      run: () => client.probe(),
    })),
    /** Probes all of them once. Never throws. */
    async probe() {
      await Promise.all(all.map(({ client }) => client.probe()));
    },
    isReachable: (name: string) => byName.get(name)?.reachability.away() === null,
    async close() {
      await Promise.all(all.map(({ client }) => client.close()));
    },
  };
}

function openPeer(
  peer: PeerConfig,
  from: string,
  { clock, log, metrics }: Omit<Parameters<typeof openPeers>[1], 'storeStatus' | 'givenUp'>,
) {
  const { name: datacenter } = peer;
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
    onCall: (outcome) => metrics.peerCall(datacenter, outcome),
  });
  return { client, reachability };
}
