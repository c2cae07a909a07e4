/** PostgreSQL: the only part of Leasehold that imports Prisma. */
export { openStore, type Store, type StoreOptions } from './store/open-store.ts';
export type { StoreMemory } from './store/store-memory.ts';
export { createLeaseStore, type LeaseStore } from './store/lease-store.ts';
export { SILENT_OBSERVER, type StatementKind, type StoreObserver } from './store/observer.ts';
export { databaseFailureOf, sqlStateOf, type DatabaseFailure } from './store/database-errors.ts';
export { isDiskFull, onceThereIsSpace } from './store/disk-full.ts';
export type { Hints } from './store/hints.ts';
export {
  countTokensMadeBy,
  findToken,
  insertToken,
  listTokens,
  readToken,
  revokeToken,
  tokensInForce,
  type NewToken,
  type TokenAccess,
  type TokenBindings,
  type TokenView,
} from './store/access/api-tokens.ts';
export {
  listAudit,
  writeAudit,
  type AuditEntry,
  type AuditListInput,
  type AuditView,
} from './store/access/audit.ts';
export {
  bootstrapCredentials,
  writeFirstCredentials,
  type Credentials,
  type DroneBindings,
} from './store/access/bootstrap-credentials.ts';
export { isAdminSignIn } from './store/access/admin-sign-in.ts';
export {
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  makeAdmin,
  type AdminSignIn,
} from './store/access/first-admin.ts';
export {
  acceptInvitation,
  type Accepted,
  INVITATION_DAYS,
  invitePerson,
  isInvitationOpen,
  newInvitationSecret,
  openPasswordReset,
} from './store/access/invitations.ts';
export {
  hashPassword,
  newPassword,
  PASSWORD_LENGTH,
  verifyPassword,
} from './store/access/password.ts';
export {
  changeRole,
  disablePerson,
  enablePerson,
  readForRefusal,
  recordSignIn,
} from './store/access/people-changes.ts';
export { removeOldPeopleRows } from './store/access/people-retention.ts';
export { findPersonId, listPeople, readPerson, type PersonRow } from './store/access/people.ts';
export { readPasswordHash, replacePassword, setPassword } from './store/access/person-passwords.ts';
export {
  endOtherSessions,
  endSession,
  endSessionsOf,
  personSessionsInForce,
  readSessionEpoch,
  SESSION_DAYS_MAX,
  type SessionAccess,
} from './store/access/person-sessions.ts';
export {
  createSessionAuthority,
  PEOPLE_TOPIC,
  type SessionAuthority,
} from './store/access/session-authority.ts';
export { hasOidcAccount } from './store/access/oidc-accounts.ts';
export {
  countSignInTry,
  forgetSignInFailures,
  type SignInTry,
  takeBackSignInTry,
  type TriedAt,
  sourceOfTries,
} from './store/access/sign-in-failures.ts';
export {
  createTokenAuthority,
  TOKENS_TOPIC,
  type TokenAuthority,
} from './store/access/token-authority.ts';
export { hashTokenSecret, isTokenSecret, newTokenSecret } from './store/access/token-secret.ts';
export {
  getBackend,
  listBackends,
  readBackendStates,
  type BackendListInput,
  type NamespaceLimits,
} from './store/fleet/backends.ts';
export {
  chooseDrone,
  type DroneChoice,
  type DroneChoiceInput,
} from './store/fleet/choose-drone.ts';
export {
  openSession,
  recordHeartbeat,
  type SessionRef,
  type SessionRequest,
} from './store/fleet/drone-sessions.ts';
export {
  countDrones,
  getDrone,
  heldLeaseIds,
  listDrones,
  setDraining,
  setLost,
  type DroneListInput,
} from './store/fleet/drones.ts';
export { removeOldFleetRows, type FleetRetention } from './store/fleet/fleet-retention.ts';
export type {
  BackendDetail,
  BackendStateView,
  BackendView,
  DroneView,
  OfferedProgram,
  OutboxAction,
} from './store/fleet/fleet-views.ts';
export { heartbeatAgeMsMax } from './store/fleet/heartbeat-staleness.ts';
export { acknowledgeAction, readOutboxes, type Outbox } from './store/fleet/outbox.ts';
export { eventCursor } from './store/event-cursor.ts';
export { listEvents, type EventListInput } from './store/event-list.ts';
export type { EventFilter } from './store/event-filter.ts';
export type { EventCulprit, EventLag } from './store/event-lag.ts';
export {
  createEventStream,
  type EventHead,
  type EventStream,
  type InTurn,
} from './store/event-stream.ts';
export type { EventRow } from './store/history.ts';
export { createFreeRowRemover, type FreeRowRemover } from './store/free-rows.ts';
export { createReaper, type Reaper, type ReapPass } from './store/reaper.ts';
export {
  checkEpoch,
  endHoldOff,
  readHoldOff,
  type EpochCheck,
  type HoldOff,
  type HoldOffCause,
} from './store/epoch.ts';
export { removeOldWitnesses } from './store/statements/beat.ts';
export { noteKeyLadder, readKeyLadders } from './store/statements/key-ladders.ts';
export type { WitnessNotice } from './store/witness/own-witness.ts';
export { countWaiters } from './store/contention.ts';
export { dropOldDeclarations } from './store/declarations.ts';
export { removeOldLeaseRows } from './store/lease-retention.ts';
export {
  checkReachable,
  connectionProblems,
  readDatabaseSettings,
  readNow,
  type DatabaseSettings,
} from './store/database-settings.ts';
export {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from './store/embedded-postgres.ts';
export {
  supervisePostgres,
  type SupervisedPostgres,
  type SupervisedPostgresOptions,
} from './store/supervised-postgres.ts';
export {
  createDatabase,
  findMigrationsDir,
  migrate,
  migrationStatus,
  type MigrationStatus,
} from './store/migrate.ts';
export {
  DURATION_PLACES,
  mergedCounts,
  percentileMs,
  placeOfDuration,
} from './store/stats/histogram.ts';
export { createEventRollup, type EventRollup } from './store/stats/event-rollup.ts';
export {
  countLiveBackends,
  countHeldLeases,
  countResources,
  readMostWaitedFor,
  type ResourceCounts,
} from './store/stats/resource-counts.ts';
export {
  addToBuckets,
  readSeries,
  removeOldBuckets,
  STATS_BUCKET_MS,
  type StatsCounts,
  type StatsStep,
} from './store/stats/stats-buckets.ts';
export {
  abortBulk,
  readBulk,
  removeOldBulks,
  startBulk,
  type BulkOrder,
  type BulkState,
} from './store/bulk/bulk-requests.ts';
export {
  claimBulk,
  finishBulk,
  letGoOfBulk,
  prolongBulk,
  readOpenItems,
  recordItems,
  type ItemOutcome,
  type OpenItem,
} from './store/bulk/bulk-runs.ts';
