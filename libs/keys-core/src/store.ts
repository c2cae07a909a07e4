/** PostgreSQL: the only part of Leasehold that imports Prisma. */
export { openStore, type Store, type StoreOptions } from './store/open-store.ts';
export { createLeaseStore, type LeaseStore } from './store/lease-store.ts';
export { SILENT_OBSERVER, type StatementKind, type StoreObserver } from './store/observer.ts';
export { databaseFailureOf, sqlStateOf, type DatabaseFailure } from './store/database-errors.ts';
export type { Hints } from './store/hints.ts';
