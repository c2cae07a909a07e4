/** The pure part of Leasehold: it runs anywhere, reads no clock and opens nothing. */
export type { Clock, IdSource } from './kernel/clock.ts';
export { newTimedId } from './kernel/lease/timed-id.ts';
export { type BatchFailure, type Coalescer, createCoalescer } from './kernel/coalesce.ts';
export { BULK_ACTIONS, BULK_STATES, type BulkAction, type BulkState } from './kernel/bulk.ts';
export type {
  DroneMessage,
  LogLine,
  LogPage,
  LogQuestion,
  LogRequest,
  SessionOpened,
  SpawnAction,
  TerminateAction,
} from './kernel/fleet/drone-messages.ts';
export {
  hasFailed,
  sayEnd,
  sayFailure,
  sayLived,
  signalOf,
  type BackendEnd,
} from './kernel/fleet/backend-end.ts';
export {
  DRONE_SORTS,
  DRONE_STATUSES,
  type DroneSort,
  type DroneStatus,
} from './kernel/fleet/drone-status.ts';
export { isFullyIsolated, NOTHING_MISSING } from './kernel/fleet/isolation.ts';
export {
  COMMAND_ERROR_CODES,
  type CommandErrorCode,
  ERROR_CODES,
  type ErrorCode,
  LeaseError,
  invariant,
} from './kernel/errors/index.ts';
export { errorText, messageOf } from './kernel/error-text.ts';
export { ASKED_EVENT_KINDS, EVENT_KINDS, type EventKind } from './kernel/events.ts';
export { compareFound, FOUND_KINDS, type FoundKind, type Match } from './kernel/found-kinds.ts';
export { HOLD_OFF_CAUSES, type HoldOffCause } from './kernel/hold-off.ts';
export { isFencingToken } from './kernel/lease/fencing-token.ts';
export { isPeriodicCall } from './kernel/periodic-calls.ts';
export { keyIdOf } from './kernel/resource/key-id.ts';
export {
  type Ladder,
  type Deadlines,
  KEY_LADDERS,
  HEARTBEAT_MS,
  ladderProblems,
  isSameLadder,
  toleratedClockRatio,
  deadlinesFrom,
  serviceLadder,
  UNCONFIRMED_LADDER,
} from './kernel/lease/ladder.ts';
export { momentOf } from './kernel/lease/moment.ts';
export { PHASES, type Phase, type EndReason } from './kernel/lease/lease.ts';
export { type Actor, actorOfToken, isSystemName } from './kernel/access/actor.ts';
export { LIMITS } from './kernel/limits.ts';
export { parseAddressRange } from './kernel/access/address-range.ts';
export {
  FAIR_USE_CONFIG_DEFAULTS,
  FAIR_USE_DEFAULTS,
  FAIR_USE_LIMITS,
  FAIR_USE_MAX,
  fairUseFrom,
  limitsWith,
  readLimits,
  type FairUseConfig,
  type FairUseLimit,
  type FairUseLimits,
  type FairUseOverrides,
} from './kernel/access/fair-use.ts';
export {
  type GrantRequest,
  type GrantRef,
  type RefusalReason,
  type ReleaseOutcome,
} from './kernel/lease/outcomes.ts';
export {
  FACES,
  type Face,
  RESERVED_NAMESPACE,
  nameProblem,
  namespaceProblem,
  joinNamespace,
  isWithinNamespace,
  type Named,
  type Resource,
} from './kernel/resource/resource.ts';
export { bytesText, percentText } from './kernel/amounts.ts';
export { printableText } from './kernel/resource/printable-text.ts';
export { namespaceText, parseResourceText, resourceText } from './kernel/resource/resource-text.ts';
export {
  ORDERED_ROLES,
  TOKEN_ROLES,
  ROLES,
  type OrderedRole,
  type TokenRole,
  type Role,
  roleAllows,
} from './kernel/access/roles.ts';
export { AUDIT_ACTIONS, SIGN_IN_ACTIONS, type AuditAction } from './kernel/access/audit-actions.ts';
export {
  type ReservationKey,
  DATACENTER_NAME,
  ID,
  isDatacenterName,
  isId,
  isReservationId,
  datacenterOf,
  reservationKeyOf,
  keyNameOf,
  reservationKeyProblem,
} from './kernel/resource/reservation.ts';
export { utf8Bytes, textProblem, jsonProblem } from './kernel/text.ts';
export {
  BACKEND_STATUSES,
  type BackendStatus,
  TERMINATION_REASONS,
  type TerminationReason,
  statusRank,
  isStopping,
  BACKEND_SORTS,
  type BackendSort,
} from './kernel/fleet/backend-state.ts';
export {
  datacenterProblems,
  endpointsProblem,
  isPeerSecret,
  listEntries,
  listItems,
  peersProblem,
  peerSecretsProblem,
} from './kernel/resource/datacenter-list.ts';
export { backoffMs } from './holder/backoff.ts';
export {
  GAP_MS,
  type KeeperEffect,
  LeaseKeeper,
  type Pulse,
  isFirstGrantPlausible,
} from './holder/lease-keeper.ts';
export type {
  Acted,
  Caller,
  Count,
  DatedPage,
  EventChanges,
  EventView,
  HolderAt,
  HolderAtGrant,
  Page,
  RenewalChange,
  Revoked,
  WaiterView,
} from './kernel/face-types.ts';
