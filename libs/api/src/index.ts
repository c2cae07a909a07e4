/** The API of a controller: routers, access, errors. Clients import its type, and `./contract`. */
export type {
  DroneMessage,
  LogLine,
  LogPage,
  LogQuestion,
  LogRequest,
  SpawnAction,
  TerminateAction,
} from '@leasehold/keys-core';
export type { LimitUse } from '@leasehold/keys-core/access';
export { assertRole, assertUnlimited, callerOf, type Access } from './access/access.ts';
export { appRouter, type AppRouter } from './app-router.ts';
export { bounded } from './bounded-input.ts';
export type {
  ApiContext,
  ApiServices,
  CallerConnection,
  CallerUse,
  EventService,
  FailedCall,
  LeaseFace,
  Setting,
  WebhookService,
  WebhookView,
} from './context.ts';
export { FORWARDED_ROLES } from './contract/peers.ts';
export { describeError, errorBody, errorShape } from './error-map.ts';
export { isRepeatable } from './forwarding/forwardable.ts';
export type {
  DatacenterService,
  ForwardedCall,
  ReservationStoreView,
  UnreachableDatacenter,
} from './services/datacenters.ts';
export { isGrantingCall } from './granting-calls.ts';
export {
  MESSAGE_MS_MAX,
  assertBound,
  messageBound,
  roleBound,
  type MessageBound,
} from './message-bounds.ts';
export { PROCEDURES, assertMayCallOneOf, type DeclaredProcedure } from './procedures.ts';
export { createTurns } from './turns.ts';
export { isUrgentCall } from './urgent-calls.ts';
