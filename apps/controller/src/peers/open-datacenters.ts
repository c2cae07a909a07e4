/** Opens what a controller needs to find out where keys live: the reservation store and its peers. */
import type { ApiServices } from '@leasehold/api';
import type { Ladder } from '@leasehold/keys-core';
import { offerOf, type FleetService } from '@leasehold/keys-core/fleet';
import type { KeyService } from '@leasehold/keys-core/keys';
import type { Store } from '@leasehold/keys-core/postgres';
import { createReservationService } from '@leasehold/keys-core/reservations';
import type { Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import { addPeerGauges, createPeerMetrics } from '../metrics.ts';
import { openReservations } from '../reservations/open-reservations.ts';
import { openPeers } from './open-peers.ts';
import { createPeerAccess } from './peer-access.ts';
import { ALONE, type DatacentersConfig } from './peers-config.ts';

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
