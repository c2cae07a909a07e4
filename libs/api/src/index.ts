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
  Actor,
  ApiContext,
  ApiServices,
  AuditService,
  CallerConnection,
  CallerUse,
  DroneAct,
  EventService,
  FleetService,
  LeaseFace,
  LimitUse,
  TokenRequest,
  TokenService,
} from './context.ts';
export { describeError, errorBody, errorShape, type ErrorAnswer } from './error-map.ts';
export type { BulkProgress, BulkRequest, BulkService } from './services/bulk.ts';
export type { Invitation, PeopleService, PersonView } from './services/people.ts';
export type {
  DatacenterService,
  DatacenterView,
  ForwardedCall,
  ReservationStoreView,
  UnreachableDatacenter,
} from './services/datacenters.ts';
export type { HoldOffService, HoldOffView, WitnessService } from './services/witness.ts';
export type { SessionView } from './services/session.ts';
export type { FaceCounts, StatsOverview, StatsPoint, StatsService } from './services/stats.ts';
export type { FailedItem } from './routers/one-by-one.ts';
export type {
  DroneMessage,
  SessionOpened,
  SpawnAction,
  TerminateAction,
} from './contract/fleet.ts';
