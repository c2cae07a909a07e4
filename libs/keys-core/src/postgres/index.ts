/** What apps and other slices may use. */
export {
  type DatabaseFailure,
  databaseFailureOf,
  isDiskFull,
  isOutOfConnections,
  isReadOnly,
  onceThereIsSpace,
  sqlStateOf,
} from './database-errors.ts';
export {
  checkReachable,
  connectionProblems,
  type DatabaseSettings,
  poolerProblem,
  readDatabaseSettings,
  readNow,
} from './database-settings.ts';
export {
  type AgeWitness,
  type ClockJumpView,
  readAgeBelief,
  readClockJump,
  removeOldClockJumps,
} from './clock/clock-jumps.ts';
export {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
  supervisePostgres,
} from './embedded/embedded-postgres.ts';
export {
  createDatabase,
  findMigrationsDir,
  migrate,
  migrationStatus,
  planMigration,
  type PlannedMigration,
} from './migrate.ts';
export { pause, SILENT_OBSERVER, type StoreObserver } from './kernel-store.ts';
export { openStore, type Store } from './open-store.ts';
export type { RetentionPass } from './retention-pass.ts';
export { removeOldWitnesses, type WitnessNotice } from './witness/database-witness.ts';
export {
  checkEpoch,
  type EndedHoldOff,
  type EndHoldOffInput,
  type HoldOffService,
  type HoldOffView,
  readHoldOff,
  type WitnessService,
} from './witness/epoch.ts';
export type { StoreMemory } from './witness/store-memory.ts';
