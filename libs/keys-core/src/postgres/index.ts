/** What apps and other slices may use. */
export { type DatabaseFailure, databaseFailureOf, sqlStateOf } from './errors/database-errors.ts';
export {
  checkReachable,
  connectionProblems,
  type DatabaseSettings,
  readDatabaseSettings,
  readNow,
} from './database-settings.ts';
export { isDiskFull, onceThereIsSpace } from './errors/disk-full.ts';
export {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from './embedded/embedded-postgres.ts';
export {
  type SupervisedPostgres,
  type SupervisedPostgresOptions,
  supervisePostgres,
} from './embedded/supervised-postgres.ts';
export type { Hints } from './hints/hints.ts';
export {
  createDatabase,
  findMigrationsDir,
  migrate,
  migrationStatus,
  type MigrationStatus,
} from './migrate/migrate.ts';
export { SILENT_OBSERVER, type StatementKind, type StoreObserver } from './observer.ts';
export { openStore, type Store, type StoreOptions } from './open-store.ts';
export type {
  CoordinatorStore,
  GuestDatabase,
  GuestStore,
  GuestTransaction,
} from './service/guest-transaction.ts';
export type { CallbackSql } from './service/prisma-guests.ts';
export { pause } from './statements/timed.ts';
export { removeOldWitnesses } from './witness/beat.ts';
export {
  checkEpoch,
  endHoldOff,
  type EpochCheck,
  type HoldOff,
  type HoldOffCause,
  readHoldOff,
} from './witness/epoch.ts';
export type { WitnessNotice } from './witness/own-witness.ts';
export type { StoreMemory } from './witness/store-memory.ts';
export type { HoldOffService, HoldOffView, WitnessService } from './witness/witness-types.ts';
