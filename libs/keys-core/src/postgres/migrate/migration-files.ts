import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseError } from '../../kernel/errors.ts';

/** One migration of this version. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file, in hexadecimal digits, as Prisma computes it too. */
  readonly checksum: string;
  /** Whether controllers that do not know it may be started on a database that has it. */
  readonly olderMayStart: boolean;
  /** What its header says: what it is for, and what running controllers of the previous version notice. */
  readonly notes: string;
}

const FILE = 'migration.sql';
const NAME = /^\d{14}_\w+$/u;
/** A line of its own in the file. A migration without it keeps older versions from starting. */
const OLDER_MAY_START = /^-- older versions may start$/mu;

/**
 * Where the migrations of this installation are: `prisma/migrations` in the nearest folder above
 * this code, which is the repository or an installed package, whether the code runs from its sources or
 * from a bundle.
 */
export function findMigrationsDir(from = path.dirname(fileURLToPath(import.meta.url))): string {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, 'prisma', 'migrations');
    if (existsSync(candidate)) return candidate;
    if (folder === path.dirname(folder)) break;
  }
  throw new LeaseError('config.invalid', `There is no folder prisma/migrations above ${from}.`);
}

/** Reads every migration of the folder, in the order in which they are applied. */
export async function readMigrations(dir: string): Promise<Migration[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isDirectory() && NAME.test(entry.name))
    .map((entry) => entry.name)
    .sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(path.join(dir, name, FILE), 'utf8');
      const checksum = createHash('sha256').update(sql).digest('hex');
      return { name, sql, checksum, olderMayStart: OLDER_MAY_START.test(sql), notes: notesOf(sql) };
    }),
  );
}

/** The comment that a file begins with. */
function notesOf(sql: string): string {
  const [header = ''] = /^(?:--.*\n)*/u.exec(sql.trimStart()) ?? [];
  return header.replace(OLDER_MAY_START, '').replaceAll(/^-- ?/gmu, '').trim();
}
