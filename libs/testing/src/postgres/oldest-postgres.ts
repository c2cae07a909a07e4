import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** Where Debian and its derivatives install PostgreSQL, with a folder for each version. */
const SYSTEM_FOLDER = '/usr/lib/postgresql';
const VERSION_MIN = 15;
const EMBEDDED_VERSION = 18;

/**
 * The oldest PostgreSQL of this machine that Leasehold supports and npm does not bring, as the folder
 * that holds its `bin`; undefined when none exists. What it finds is tested too.
 */
export function findOldestPostgres(): string | undefined {
  if (!existsSync(SYSTEM_FOLDER)) return undefined;
  return readdirSync(SYSTEM_FOLDER)
    .map(Number)
    .filter((version) => version >= VERSION_MIN && version < EMBEDDED_VERSION)
    .sort((a, b) => a - b)
    .map((version) => path.join(SYSTEM_FOLDER, String(version)))
    .find((folder) =>
      ['initdb', 'postgres'].every((name) => existsSync(path.join(folder, 'bin', name))),
    );
}
