import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseError } from '../../kernel/errors.ts';

/** The migrations of a folder, as the schema engine takes them. */
export interface MigrationFiles {
  readonly baseDir: string;
  readonly names: readonly string[];
  readonly lockfile: { path: string; content: string };
  readonly migrationDirectories: {
    path: string;
    migrationFile: { path: string; content: { tag: 'ok'; value: string } };
  }[];
}

const LOCK_FILE = 'migration_lock.toml';

/**
 * Where the migrations of this installation are: `prisma/migrations` in the nearest folder above
 * this code, which is the repository, whether the code runs from its sources or from a bundle.
 */
export function findMigrationsDir(from = path.dirname(fileURLToPath(import.meta.url))): string {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, 'prisma', 'migrations');
    if (existsSync(path.join(candidate, LOCK_FILE))) return candidate;
    if (folder === path.dirname(folder)) break;
  }
  throw new LeaseError('config.invalid', `There is no folder prisma/migrations above ${from}.`);
}

/** Reads every migration of the folder, in the order in which they are applied. */
export async function readMigrations(dir: string): Promise<MigrationFiles> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
  return {
    baseDir: path.resolve(dir),
    names,
    lockfile: { path: LOCK_FILE, content: await readFile(path.join(dir, LOCK_FILE), 'utf8') },
    migrationDirectories: await Promise.all(
      names.map(async (name) => {
        const value = await readFile(path.join(dir, name, 'migration.sql'), 'utf8');
        return {
          path: name,
          migrationFile: { path: 'migration.sql', content: { tag: 'ok', value } },
        };
      }),
    ),
  };
}
