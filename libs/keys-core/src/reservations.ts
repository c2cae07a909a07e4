/** The reservations face: which datacenter a key lives in (Epoxy). */
export {
  createReservationService,
  type ReservationDeps,
} from './reservations/reservation-service.ts';
export { createPostgresReservationStore } from './reservations/postgres-store.ts';
export {
  createEtcdReservationStore,
  type EtcdReservationStore,
} from './reservations/etcd/etcd-store.ts';
export type { EtcdOptions } from './reservations/etcd/etcd-calls.ts';
export { createRememberingStore } from './reservations/remembering-store.ts';
export type { ReservationStore } from './reservations/reservation-store.ts';
export { createResolver, type Resolver, type ResolverOptions } from './reservations/resolver.ts';
export {
  NO_PEERS,
  type Peer,
  type PeerConnectInput,
  type PeerConnectOutcome,
  type Peers,
} from './reservations/peers.ts';
export type {
  ChainLink,
  FreshKey,
  Home,
  MoveInput,
  Moved,
  ReservationDetail,
  ReservationListInput,
  Reserved,
  ReservationService,
  ReservationUse,
  ReservationView,
  Resolved,
} from './reservations/reservation-types.ts';
export { putHomes } from './reservations/sql/home-rows.ts';
export type { Departure, Standing } from './reservations/sql/activate.ts';
export {
  PUBLISHING,
  firstReservationsAfter,
  markPublishing,
  newestPointers,
  newestReservations,
  noteMembership,
  pointersAfter,
  readMembership,
  registerHere,
  sealDeparted,
  unreservedKeysAfter,
  type Membership,
} from './reservations/sql/membership.ts';
