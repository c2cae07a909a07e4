/** The API of a controller: routers, access, errors. Clients import its type, and `./contract`. */
export { isRepeatable } from './forwarding/forwardable.ts';
export { isUrgentCall } from './urgent-calls.ts';
export { FORWARDED_ROLES } from './contract/peers.ts';
export {
  assertRole,
  assertUnlimited,
  callerOf,
  type Access,
  type PersonSession,
} from './access/access.ts';
export { appRouter, type AppRouter } from './app-router.ts';
export type {
  ApiContext,
  ApiServices,
  AuditService,
  CallerConnection,
  CallerUse,
  EventService,
  LeaseFace,
} from './context.ts';
export { describeError, errorBody, errorShape, type ErrorAnswer } from './error-map.ts';
export type { BulkProgress, BulkRequest, BulkService } from '@leasehold/keys-core/bulk';
export type { Actor } from '@leasehold/keys-core';
export type {
  Invitation,
  LimitUse,
  PeopleService,
  PersonView,
  TokenRequest,
  TokenService,
} from '@leasehold/keys-core/access';
export type {
  DatacenterService,
  DatacenterView,
  ForwardedCall,
  ReservationStoreView,
  UnreachableDatacenter,
} from './services/datacenters.ts';
export type { DroneAct, FleetService } from '@leasehold/keys-core/fleet';
export type { HoldOffService, HoldOffView, WitnessService } from '@leasehold/keys-core/postgres';
export type { SessionView } from './services/session.ts';
export type {
  FaceCounts,
  StatsOverview,
  StatsPoint,
  StatsService,
} from '@leasehold/keys-core/stats';
export type { FailedItem } from './routers/leases/one-by-one.ts';
export type {
  DroneMessage,
  SessionOpened,
  SpawnAction,
  TerminateAction,
} from './contract/fleet.ts';
