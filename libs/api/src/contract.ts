/**
 * The contract: every input as a strict schema (an unknown field is an error), and the answers'
 * types. Browser-safe: it loads neither the routers nor a database.
 */
export { auditListInputSchema } from './contract/access/audit.ts';
export {
  backendGetInputSchema,
  backendIdInputSchema,
  backendListInputSchema,
  backendTerminateInputSchema,
} from './contract/backends.ts';
export {
  textSchema,
  nameSchema,
  namespaceSchema,
  tagSchema,
  holderSchema,
  reasonSchema,
  idempotencyKeySchema,
  leaseIdSchema,
  fencingTokenSchema,
  idSchema,
  datacenterSchema,
  anyDatacenterSchema,
  placedFields,
  localTimeMsSchema,
  instantSchema,
  cursorSchema,
  envNameSchema,
  limitSchema,
  deadlinesSchema,
  grantRefSchema,
  segmentsSchema,
} from './contract/common.ts';
export {
  reservationKeySchema,
  reserveInputSchema,
  resolveInputSchema,
  reservationGetInputSchema,
  moveInputSchema,
  reservationListInputSchema,
} from './contract/reservations.ts';
export { eventListInputSchema, eventWatchInputSchema } from './contract/events.ts';
export {
  droneIdInputSchema,
  droneListInputSchema,
  droneActInputSchema,
} from './contract/drones.ts';
export {
  offeredProgramSchema,
  sessionInputSchema,
  heartbeatInputSchema,
  ackInputSchema,
  reportInputSchema,
  type ReportOutcome,
  type SessionOpened,
  type SpawnAction,
  type TerminateAction,
  type DroneMessage,
} from './contract/fleet.ts';
export {
  keyNameSchema,
  spawnSchema,
  connectInputSchema,
  keyListInputSchema,
  keyRenewInputSchema,
  keyRenewableInputSchema,
  keyRevokeInputSchema,
  keyPageInputSchema,
} from './contract/keys.ts';
export {
  environmentSchema,
  tryAcquireInputSchema,
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  type EnvironmentName,
} from './contract/environments.ts';
export {
  commentSchema,
  metadataSchema,
  acquireItemSchema,
  acquireInputSchema,
  acquireManyInputSchema,
  releaseInputSchema,
  releaseItemSchema,
  releaseManyInputSchema,
  leaseHeartbeatInputSchema,
  cancelInputSchema,
  leaseSessionInputSchema,
  declareInputSchema,
  leaseNameSchema,
  leasePageInputSchema,
  leaseListInputSchema,
  leaseTreeInputSchema,
  leaseContentionInputSchema,
  leaseDeclaredInputSchema,
  leaseRenewableInputSchema,
  leaseRevokeInputSchema,
} from './contract/leases.ts';
export { holdOffEndInputSchema, holdOffInputSchema } from './contract/hold-off.ts';
export type { HoldOffView } from '@leasehold/keys-core/postgres';
export { bulkIdInputSchema, bulkStartInputSchema } from './contract/bulk.ts';
export {
  emailSchema,
  peopleListInputSchema,
  personActInputSchema,
  personInviteInputSchema,
  personRoleSchema,
  personSetRoleInputSchema,
} from './contract/access/people.ts';
export { STATS_WINDOW_MINUTES_MAX, statsOverviewInputSchema } from './contract/stats.ts';
export type { Invitation, PersonView } from '@leasehold/keys-core/access';
export type {
  ContendedResource,
  FaceCounts,
  StatsOverview,
  StatsPoint,
} from '@leasehold/keys-core/stats';
export { BULK_ACTIONS, BULK_STATES, type BulkAction, type BulkState } from '@leasehold/keys-core';
export type { BulkFailure, BulkProgress } from '@leasehold/keys-core/bulk';
export type {
  DatacenterView,
  ReservationStoreView,
  UnreachableDatacenter,
} from './services/datacenters.ts';
export type { SessionView } from './services/session.ts';
export {
  tokenCreateInputSchema,
  tokenListInputSchema,
  tokenRevokeInputSchema,
} from './contract/access/tokens.ts';
