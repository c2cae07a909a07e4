/** Opens what a controller needs to find out where keys live: the reservation store and its peers. */
import type { ApiServices, DatacenterService, ReservationStoreView } from '@leasehold/api';
import { LeaseError, type Clock, type Ladder } from '@leasehold/keys-core';
import { offerOf, type FleetService } from '@leasehold/keys-core/fleet';
import type { KeyService } from '@leasehold/keys-core/keys';
import type { Store } from '@leasehold/keys-core/postgres';
import { createReservationService, type GivenUpView } from '@leasehold/keys-core/reservations';
import type { Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import type { Job } from '../background.ts';
import { addPeerGauges, createPeerMetrics } from '../metrics.ts';
import { openReservations } from './open-reservations.ts';
import { createPeerClient, createPeerReachability } from './peer-client.ts';
import {
  ALONE,
  createPeerAccess,
  type DatacentersConfig,
  type PeerConfig,
} from './peers-config.ts';

export type OpenDatacenters = Awaited<ReturnType<typeof openDatacenters>>;

/** @throws {LeaseError} `config.invalid`, `reservation.store_unreachable`: see `openReservations`. */
export async function openDatacenters(
  config: {
    readonly datacenter: string;
    readonly datacenters?: DatacentersConfig | undefined;
    readonly ladder: Ladder;
  },
  deps: { readonly store: Store; readonly metrics: Registry; readonly log: Logger },
) {
  const { datacenter, datacenters: { peers, etcd, startAloneMs } = ALONE } = config;
  const { store, log } = deps;
  const names = peers.map(({ name }) => name);
  const reservations = await openReservations(
    { datacenter, peers: names, etcd, startAloneMs, keyTtlMs: config.ladder.ttlMs },
    { store, log },
  );
  const metrics = createPeerMetrics(deps.metrics);
  const opened = openPeers(
    { datacenter, peers },
    {
      clock: store.clock,
      log,
      metrics,
      storeStatus: () => reservations.storeStatus(),
      givenUp: () => reservations.givenUp.list(),
    },
  );
  addPeerGauges(deps.metrics, {
    peers: names,
    isReachable: opened.isReachable,
    isStoreReachable: () => reservations.storeStatus().isReachable,
  });
  // Not awaited: a datacenter that is unreachable must not hold up this one.
  void opened.probe();
  return {
    access: createPeerAccess(datacenter, peers),
    service: opened.service,
    /** Reservations over these keys: a connect is carried out where its key lives. */
    reservationsOf: (
      keys: Pick<KeyService, 'connect' | 'connectAgain' | 'refuse'>,
      fleet: Pick<FleetService, 'offeredPrograms'>,
    ): ApiServices['reservations'] =>
      createReservationService({
        store,
        reservations: reservations.store,
        keys,
        offered: async () => offerOf(await fleet.offeredPrograms()),
        peers: opened.peers,
        givenUp: reservations.givenUp,
        onResolved: metrics.resolved,
      }),
    giveUp: reservations.giveUpOf(opened.peers),
    failed: reservations.failed,
    jobs: opened.jobs,
    async close() {
      await opened.close();
      await reservations.close();
    },
  };
}

// The other datacenters of a controller: calls to them, and what is known of them.

/** How often each of them is probed. */
const PROBE_EVERY_MS = 3_000;

function openPeers(
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
  const peers = { names, get: (name: string) => byName.get(name)?.client };
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
    peers,
    service,
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
