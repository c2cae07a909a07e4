/** The reservations face: which datacenter a key lives in (Epoxy). */
export {
  createReservationService,
  type ReservationDeps,
} from './faces/reservations/reservation-service.ts';
export { createPostgresReservationStore } from './faces/reservations/postgres-store.ts';
export {
  createEtcdReservationStore,
  type EtcdReservationStore,
} from './faces/reservations/etcd-store.ts';
export type { EtcdOptions } from './faces/reservations/etcd/etcd-calls.ts';
export { createRememberingStore } from './faces/reservations/remembering-store.ts';
export type { ReservationStore } from './faces/reservations/reservation-store.ts';
export {
  createResolver,
  type Resolver,
  type ResolverOptions,
} from './faces/reservations/resolver.ts';
export {
  NO_PEERS,
  type Peer,
  type PeerConnectInput,
  type PeerConnectOutcome,
  type Peers,
} from './faces/reservations/peers.ts';
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
  ReservationView,
  Resolved,
  StartReserving,
} from './faces/reservations/reservation-types.ts';
export { putHomes } from './store/reservations/home-rows.ts';
export type { Departure, Standing } from './store/reservations/activate.ts';
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
} from './store/reservations/membership.ts';
