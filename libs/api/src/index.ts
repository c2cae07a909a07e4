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
export { assertRole, assertUnlimited, callerOf, type Access } from './access.ts';
export {
  appRouter,
  type AppRouter,
  assertMayCallOneOf,
  callDirectly,
  type DeclaredProcedure,
  isDirectCall,
  PROCEDURES,
} from './app-router.ts';
export { bounded, createTurns } from './bounded-input.ts';
export {
  assertBound,
  isGrantingCall,
  isRepeatable,
  isUrgentCall,
  MESSAGE_MS_MAX,
  messageBound,
  type MessageBound,
  roleBound,
} from './call-kinds.ts';
export { noteRefused } from './trpc.ts';
export type {
  ApiContext,
  ApiServices,
  CallerConnection,
  CallerUse,
  DatacenterService,
  EventService,
  FailedCall,
  ForwardedCall,
  LeaseFace,
  Readings,
  ReservationStoreView,
  Setting,
  UnreachableDatacenter,
  WebhookService,
  WebhookView,
} from './context.ts';
export { FORWARDED_ROLES } from './contract/reservations.ts';
export { describeError, errorBody, errorShape } from './error-map.ts';
