/** The pure part of Leasehold: it runs anywhere, reads no clock and opens nothing. */
export type { Clock, IdSource } from './kernel/clock.ts';
export {
  type BatchFailure,
  type Coalescer,
  type CoalescerOptions,
  createCoalescer,
} from './kernel/coalesce.ts';
export { BULK_ACTIONS, BULK_STATES, type BulkAction, type BulkState } from './kernel/bulk.ts';
export type {
  DroneMessage,
  SessionOpened,
  SpawnAction,
  TerminateAction,
} from './kernel/fleet/drone-messages.ts';
export { DRONE_STATUSES, type DroneStatus } from './kernel/fleet/drone-status.ts';
export {
  COMMAND_ERROR_CODES,
  type CommandErrorCode,
  ERROR_CODES,
  type ErrorCode,
  LeaseError,
  InvariantError,
  invariant,
  assertNever,
} from './kernel/errors/index.ts';
export { EVENT_KINDS, type EventKind, type LeaseEvent } from './kernel/events.ts';
export { isFencingToken, compareFencingTokens } from './kernel/lease/fencing-token.ts';
export { keyIdOf } from './kernel/resource/key-id.ts';
export {
  type Ladder,
  type Deadlines,
  KEY_LADDERS,
  HEARTBEAT_MS,
  ladderProblems,
  assertLadder,
  isSameLadder,
  toleratedClockRatio,
  deadlinesFrom,
  serviceLadder,
  UNCONFIRMED_LADDER,
} from './kernel/lease/ladder.ts';
export {
  PHASES,
  type Phase,
  type EndReason,
  type PhaseInput,
  phaseOf,
  type LeaseRow,
} from './kernel/lease/lease.ts';
export { type Actor, SYSTEM_ACTOR, actorOfToken, isSystemName } from './kernel/access/actor.ts';
export { LIMITS } from './kernel/limits.ts';
export { parseAddressRange, type AddressRange } from './kernel/access/address-range.ts';
export {
  ANONYMOUS_MAX,
  FAIR_USE_CONFIG_DEFAULTS,
  FAIR_USE_DEFAULTS,
  FAIR_USE_LIMITS,
  FAIR_USE_MAX,
  FAIR_USE_VARIABLES,
  fairUseFrom,
  limitsWith,
  readLimits,
  type AnonymousLimits,
  type FairUseConfig,
  type FairUseLimit,
  type FairUseLimits,
  type FairUseOverrides,
} from './kernel/access/fair-use.ts';
export {
  type GrantRequest,
  type Grant,
  type GrantOutcome,
  type GrantRef,
  REFUSAL_REASONS,
  type RefusalReason,
  type RenewOutcome,
  RELEASE_OUTCOMES,
  type ReleaseOutcome,
  type RevokeOutcome,
} from './kernel/lease/outcomes.ts';
export {
  FACES,
  type Face,
  type Resource,
  RESERVED_NAMESPACE,
  resourceKey,
  nameProblem,
  namespaceProblem,
  joinNamespace,
  assertNamespace,
  assertResource,
  isWithinNamespace,
} from './kernel/resource/resource.ts';
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
export { AUDIT_ACTIONS, type AuditAction } from './kernel/access/audit-actions.ts';
export {
  type ReservationKey,
  type ReservationPointer,
  isDatacenterName,
  reservationIdOf,
  isReservationId,
  datacenterOf,
  reservationKeyOf,
  keyNameOf,
  reservationKeyText,
  parseReservationKey,
  reservationKeyProblem,
  assertReservationKey,
} from './kernel/resource/reservation.ts';
export { utf8Bytes, textProblem, jsonProblem, assertText } from './kernel/text.ts';
export {
  BACKEND_STATUSES,
  type BackendStatus,
  TERMINATION_REASONS,
  type TerminationReason,
  statusRank,
  isStopping,
} from './kernel/fleet/backend-state.ts';
export { type BackoffOptions, backoffMs } from './holder/backoff.ts';
export {
  type KeyLossReason,
  type KeeperEffect,
  type LeaseKeeperOptions,
  GAP_MS,
  LeaseKeeper,
  isFirstGrantPlausible,
} from './holder/lease-keeper.ts';
export type {
  Acted,
  Caller,
  DatedPage,
  EventView,
  GrantListInput,
  GrantTimes,
  Page,
  WaiterView,
} from './kernel/face-types.ts';
