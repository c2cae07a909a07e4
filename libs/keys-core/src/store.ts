/** PostgreSQL: the only part of Leasehold that imports Prisma. */
export { openStore, type Store, type StoreOptions } from './postgres/open-store.ts';
export type { StoreMemory } from './postgres/witness/store-memory.ts';
export { createLeaseStore, type LeaseStore } from './grants/lease-store.ts';
export { SILENT_OBSERVER, type StatementKind, type StoreObserver } from './postgres/observer.ts';
export { databaseFailureOf, sqlStateOf, type DatabaseFailure } from './postgres/database-errors.ts';
export { isDiskFull, onceThereIsSpace } from './postgres/disk-full.ts';
export type { Hints } from './postgres/hints/hints.ts';
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
} from './access/sql/api-tokens.ts';
export {
  listAudit,
  writeAudit,
  type AuditEntry,
  type AuditListInput,
  type AuditView,
} from './access/sql/audit.ts';
export {
  bootstrapCredentials,
  writeFirstCredentials,
  type Credentials,
  type DroneBindings,
} from './access/sql/bootstrap-credentials.ts';
export { isAdminSignIn } from './access/sql/admin-sign-in.ts';
export {
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  makeAdmin,
  type AdminSignIn,
} from './access/sql/first-admin.ts';
export {
  acceptInvitation,
  type Accepted,
  INVITATION_DAYS,
  invitePerson,
  isInvitationOpen,
  newInvitationSecret,
  openPasswordReset,
} from './access/sql/invitations.ts';
export { hashPassword, newPassword, PASSWORD_LENGTH, verifyPassword } from './access/password.ts';
export {
  changeRole,
  disablePerson,
  enablePerson,
  readForRefusal,
  recordSignIn,
} from './access/sql/people-changes.ts';
export { removeOldPeopleRows } from './access/sql/people-retention.ts';
export { findPersonId, listPeople, readPerson, type PersonRow } from './access/sql/people.ts';
export { readPasswordHash, replacePassword, setPassword } from './access/sql/person-passwords.ts';
export {
  endOtherSessions,
  endSession,
  endSessionsOf,
  personSessionsInForce,
  readSessionEpoch,
  SESSION_DAYS_MAX,
  type SessionAccess,
} from './access/sql/person-sessions.ts';
export {
  createSessionAuthority,
  PEOPLE_TOPIC,
  type SessionAuthority,
} from './access/session-authority.ts';
export { hasOidcAccount } from './access/sql/oidc-accounts.ts';
export {
  countSignInTry,
  forgetSignInFailures,
  type SignInTry,
  takeBackSignInTry,
  type TriedAt,
  sourceOfTries,
} from './access/sql/sign-in-failures.ts';
export {
  createTokenAuthority,
  TOKENS_TOPIC,
  type TokenAuthority,
} from './access/token-authority.ts';
export { hashTokenSecret, isTokenSecret, newTokenSecret } from './access/token-secret.ts';
export {
  getBackend,
  listBackends,
  readBackendStates,
  type BackendListInput,
  type NamespaceLimits,
} from './fleet/sql/backends.ts';
export { chooseDrone, type DroneChoice, type DroneChoiceInput } from './fleet/sql/choose-drone.ts';
export {
  openSession,
  recordHeartbeat,
  type SessionRef,
  type SessionRequest,
} from './fleet/sql/drone-sessions.ts';
export {
  countDrones,
  getDrone,
  heldLeaseIds,
  listDrones,
  setDraining,
  setLost,
  type DroneListInput,
} from './fleet/sql/drones.ts';
export { removeOldFleetRows, type FleetRetention } from './fleet/sql/fleet-retention.ts';
export type {
  BackendDetail,
  BackendStateView,
  BackendView,
  DroneView,
  OfferedProgram,
  OutboxAction,
} from './fleet/fleet-views.ts';
export { heartbeatAgeMsMax } from './fleet/heartbeat-staleness.ts';
export { acknowledgeAction, readOutboxes, type Outbox } from './fleet/sql/outbox.ts';
export { eventCursor } from './events/event-cursor.ts';
export { listEvents, type EventListInput } from './events/sql/event-list.ts';
export type { EventFilter } from './events/sql/event-filter.ts';
export type { EventCulprit, EventLag } from './events/sql/event-lag.ts';
export {
  createEventStream,
  type EventHead,
  type EventStream,
  type InTurn,
} from './events/event-stream.ts';
export type { EventRow } from './events/sql/history.ts';
export { createFreeRowRemover, type FreeRowRemover } from './grants/free-rows.ts';
export { createReaper, type Reaper, type ReapPass } from './keys/reaper.ts';
export {
  checkEpoch,
  endHoldOff,
  readHoldOff,
  type EpochCheck,
  type HoldOff,
  type HoldOffCause,
} from './postgres/witness/epoch.ts';
export { removeOldWitnesses } from './postgres/witness/beat.ts';
export { noteKeyLadder, readKeyLadders } from './grants/sql/parts/key-ladders.ts';
export type { WitnessNotice } from './postgres/witness/own-witness.ts';
export { countWaiters } from './leases/sql/contention.ts';
export { dropOldDeclarations } from './leases/sql/declarations.ts';
export { removeOldLeaseRows } from './grants/sql/lease-retention.ts';
export {
  checkReachable,
  connectionProblems,
  readDatabaseSettings,
  readNow,
  type DatabaseSettings,
} from './postgres/database-settings.ts';
export {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from './postgres/embedded/embedded-postgres.ts';
export {
  supervisePostgres,
  type SupervisedPostgres,
  type SupervisedPostgresOptions,
} from './postgres/embedded/supervised-postgres.ts';
export {
  createDatabase,
  findMigrationsDir,
  migrate,
  migrationStatus,
  type MigrationStatus,
} from './postgres/migrate/migrate.ts';
export { DURATION_PLACES, mergedCounts, percentileMs, placeOfDuration } from './stats/histogram.ts';
export { createEventRollup, type EventRollup } from './stats/sql/event-rollup.ts';
export {
  countLiveBackends,
  countHeldLeases,
  countResources,
  readMostWaitedFor,
  type ResourceCounts,
} from './stats/sql/resource-counts.ts';
export {
  addToBuckets,
  readSeries,
  removeOldBuckets,
  STATS_BUCKET_MS,
  type StatsCounts,
  type StatsStep,
} from './stats/sql/stats-buckets.ts';
export {
  abortBulk,
  readBulk,
  removeOldBulks,
  startBulk,
  type BulkOrder,
  type BulkState,
} from './bulk/sql/bulk-requests.ts';
export {
  claimBulk,
  finishBulk,
  letGoOfBulk,
  prolongBulk,
  readOpenItems,
  recordItems,
  type ItemOutcome,
  type OpenItem,
} from './bulk/sql/bulk-runs.ts';
