/** Programs of this machine that npm does not bring; tools/install/debian.mjs installs them. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { findOldestPostgres } from '../../../../libs/testing/src/postgres/oldest-postgres.ts';

const HELP =
  'Install Debian’s packages "patroni", "haproxy" and "postgresql" (PostgreSQL 15 to 17, in /usr/lib/postgresql).';

/** The folder of a PostgreSQL with all of its programs, in `bin`. @throws when none exists, with what to install. */
export function postgresFolder(): string {
  const folder = findOldestPostgres();
  if (folder !== undefined) return folder;
  throw new Error(`There is no PostgreSQL in /usr/lib/postgresql. ${HELP}`);
}

/** A program in the PATH. @throws when it is not there, with what to install. */
export function programFile(name: string): string {
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin'];
  const file = folders
    .filter((folder) => folder !== '')
    .map((folder) => path.join(folder, name))
    .find((candidate) => existsSync(candidate));
  if (file === undefined) throw new Error(`There is no ${name} in PATH. ${HELP}`);
  return file;
}
