/** What tests share: a real PostgreSQL, a database for each file, processes, faults. */
export { createTestDatabase, type TestDatabase } from './test-database.ts';
export { waitUntil, type WaitOptions } from './wait-until.ts';
