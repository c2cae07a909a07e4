/** What apps and other slices may use. */
export type { EtcdOptions } from './etcd/etcd-calls.ts';
export { createEtcdReservationStore, type EtcdReservationStore } from './etcd/etcd-store.ts';
export { createGiveUpService, createNoGiveUpService } from './given-up/give-up-service.ts';
export {
  NONE_GIVEN_UP,
  type GivenUp,
  type GivenUpDatacenters,
  type GivenUpView,
  type GiveUpService,
} from './given-up/given-up-types.ts';
export { createKnownGivenUp, type KnownGivenUp } from './given-up/known-given-up.ts';
export { createOwnStanding, type OwnStanding } from './given-up/own-standing.ts';
export type { Peer, Peers } from './peers.ts';
export type { Offered } from '../kernel/fleet/offer.ts';
export { createPostgresReservationStore } from './store/postgres-store.ts';
export { createRememberingStore } from './store/remembering-store.ts';
export { createReservationService } from './reservation-service.ts';
export type { ReservationStore } from './store/reservation-store.ts';
export type {
  Home,
  MoveInput,
  PeerConnectOutcome,
  PendingMove,
  ReservationDetail,
  ReservationListInput,
  ReservationService,
  ReservationUse,
  ReservationView,
  Resolved,
} from './reservation-types.ts';
export type { ReservationStatus } from './sql/activate.ts';
export { createResolver, type Resolver } from './resolving/resolver.ts';
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
