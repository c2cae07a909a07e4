import { findOldestPostgres } from '../../../../libs/testing/src/postgres/oldest-postgres.ts';

/** The folder of a PostgreSQL with all of its programs, in `bin`. @throws when none exists, with what to install. */
export function postgresFolder(): string {
  const folder = findOldestPostgres();
  if (folder !== undefined) return folder;
  throw new Error(
    'There is no PostgreSQL in /usr/lib/postgresql. Install Debian’s package "postgresql" (15 to 17).',
  );
}
