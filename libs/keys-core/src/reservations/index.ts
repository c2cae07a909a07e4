/** What apps and other slices may use. */
export type { EtcdOptions } from './etcd/etcd-calls.ts';
export { createEtcdReservationStore, type EtcdReservationStore } from './etcd/etcd-store.ts';
export { createGiveUpService, createNoGiveUpService } from './give-up-service.ts';
export {
  type GivenUp,
  type GivenUpDatacenters,
  type GivenUpView,
  type GiveUpService,
  NONE_GIVEN_UP,
} from './given-up.ts';
export type {
  Home,
  MoveInput,
  Peer,
  PeerConnectOutcome,
  Peers,
  PendingMove,
  ReservationDetail,
  ReservationListInput,
  ReservationService,
  ReservationStatus,
  ReservationUse,
  ReservationView,
  Resolved,
} from './reservation-types.ts';
export type { Offered } from '../kernel/drones.ts';
export {
  createPostgresReservationStore,
  createRememberingStore,
  type ReservationStore,
} from './reservation-store.ts';
export { createReservationService } from './reservation-service.ts';
export {
  createKnownGivenUp,
  createOwnStanding,
  type KnownGivenUp,
  type OwnStanding,
} from './standing.ts';
export { createResolver, type Resolver } from './resolver.ts';
export {
  type Membership,
  noteMembership,
  PUBLISHING,
  readMembership,
  registerHere,
} from './sql/membership.ts';
export { type Duties, createDuties, isSynced } from './duties.ts';
export { assertOwn, invalid } from './invalid.ts';
export { reserveOldKeysHere } from './publish.ts';
