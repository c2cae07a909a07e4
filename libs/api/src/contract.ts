/**
 * What other packages use of the contract: the schemas of inputs, which are strict (an unknown field is an
 * error), and the types of answers. Browser-safe: it loads neither the routers nor a database.
 */
export {
  auditListInputSchema,
  emailSchema,
  limitNamespaceSchema,
  personInviteInputSchema,
} from './contract/access.ts';
export { checked, datacenterSchema, envNameSchema, idSchema } from './contract/common.ts';
export { eventListInputSchema } from './contract/events.ts';
export {
  ackInputSchema,
  answerInputSchema,
  goodbyeInputSchema,
  heartbeatInputSchema,
  reportInputSchema,
  sessionInputSchema,
} from './contract/fleet.ts';
export {
  gatewayHandOverInputSchema,
  gatewayRouteInputSchema,
  gatewaySyncInputSchema,
} from './contract/gateway.ts';
export { connectInputSchema, keyListInputSchema, keyRenewInputSchema } from './contract/keys.ts';
export {
  acquireEnvironmentInputSchema,
  acquireInputSchema,
  declareInputSchema,
  environmentListInputSchema,
  leaseListInputSchema,
  tryAcquireInputSchema,
} from './contract/leases.ts';
export {
  LIMIT_NAMESPACES_MAX,
  moveInputSchema,
  peerCallerSchema,
  reservationListInputSchema,
  reserveInputSchema,
  resolveInputSchema,
} from './contract/reservations.ts';
export type { EventLag } from '@leasehold/keys-core/events';
export type { ClockJumpView, HoldOffView } from '@leasehold/keys-core/postgres';
export type {
  ContendedResource,
  FailingKey,
  HealthConcern,
  StatsOverview,
  StatsPoint,
} from '@leasehold/keys-core/stats';
export type { SessionView } from './access.ts';
