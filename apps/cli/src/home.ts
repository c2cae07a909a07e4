/** `LEASEHOLD_HOME`, where `leasehold up` keeps what it runs with, and the database that commands find there. */
import { randomUUID } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { CliConfig } from './config.ts';
import { refusal, usageFailure, type CliFailure } from './failures.ts';
import { printable } from './output/text.ts';
import { isErrorCode, lockOwner, tryLock, type ProcessIdentity } from './processes.ts';

/** What `leasehold up` tells everybody about itself, in `run.json`. */
export interface RunFile {
  readonly controllerUrl: string;
  /** Where a browser finds the console; null when none runs. */
  readonly consoleUrl: string | null;
  /** Where a browser reaches keys; null when no gateway runs. */
  readonly gatewayUrl: string | null;
  readonly databaseUrl: string;
  /** What its options, its file and its environment gave together. */
  readonly settings?: ReturnType<typeof runSettings>;
  readonly droneIds: readonly string[];
  /** What the drone offers. */
  readonly programs: readonly {
    readonly name: string;
    /** As a person would type it. */
    readonly command: string;
    /** Where it comes from, for people. */
    readonly source: string;
  }[];
  readonly pids: {
    readonly controller: number | null;
    readonly agent: number | null;
    readonly warden: number | null;
    readonly console: number | null;
    readonly gateway: number | null;
    readonly postgres: number | null;
  };
}

/** The secrets of `credentials.json`, as far as the command line uses them. */
interface Credentials {
  readonly admin: string;
  readonly drone: string;
  /** The first administrator of the console. */
  readonly console?: { readonly email: string; readonly password: string };
}

export function runFilePath(home: string): string {
  return join(home, 'run.json');
}

export function credentialsPath(home: string): string {
  return join(home, 'credentials.json');
}

/** What `leasehold up` recorded about itself; undefined when nothing was started in this home. */
export function readRunFile(home: string): RunFile | undefined {
  return readJson(runFilePath(home)) as RunFile | undefined;
}

/** What of its configuration a run tells: no secret. */
export function runSettings(config: CliConfig) {
  const { host, port, consolePort, gatewayPort, datacenter, schema } = config;
  const { preset, ladder, heartbeatMs, environmentLeaseMs, eventRetentionDays, logLevel } = config;
  return {
    host,
    port,
    consolePort,
    gatewayPort,
    datacenter,
    schema,
    preset,
    ladder,
    heartbeatMs,
    environmentLeaseMs,
    eventRetentionDays,
    logLevel,
  };
}

/** What names the database of a command. */
type DatabaseChoice = Pick<CliConfig, 'databaseUrl' | 'home' | 'context'>;

/** The database that is configured, or else the one that runs in the home. @throws {CliFailure} `cli.usage`. */
export function requireDatabase(config: DatabaseChoice, hint: string): string {
  const found = namedDatabase(config) ?? readRunFile(config.home)?.databaseUrl;
  if (found === undefined) throw usageFailure('DATABASE_URL is not set.', hint);
  return found;
}

/** The database of DATABASE_URL; null: that of the home. @throws {CliFailure} `cli.usage` for a context. */
export function namedDatabase({ databaseUrl, context }: DatabaseChoice): string | null {
  if (databaseUrl !== null || context === null || context === 'local') return databaseUrl;
  throw usageFailure(
    `The context ${printable(context)} names controllers, and this command needs a database.`,
    'Set DATABASE_URL; without it and without a context, the database of the home is used.',
  );
}

/** @returns undefined when none exist. */
export function readCredentials(home: string): Credentials | undefined {
  return readJson(credentialsPath(home)) as Credentials | undefined;
}

/** Makes the home directory, which only its owner may enter. */
export function makeHome(home: string): void {
  try {
    makeFolder(home);
  } catch (error) {
    throw unusable(`The directory ${home} cannot be made`, error);
  }
}

function unusable(what: string, error: unknown): CliFailure {
  return refusal(
    'home.unusable',
    `${what}: ${error instanceof Error ? error.message : String(error)}`,
    'Set LEASEHOLD_HOME to a directory that you may write to.',
  );
}

/**
 * Makes a folder and those above it. Without `recursive`: where a file system answers "no such
 * file" for a folder that it cannot make, as /proc does, Node 20 then retries forever.
 */
function makeFolder(path: string): void {
  if (existsSync(path) && statSync(path).isDirectory()) return;
  const parent = dirname(path);
  if (!existsSync(parent)) makeFolder(parent);
  mkdirSync(path, { mode: 0o700 });
}

/** The text of a file that {@link writePrivateJson} writes. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Writes a file that only its owner may read, whole or not at all. */
export function writePrivateJson(path: string, value: unknown): void {
  const draft = `${path}.${randomUUID()}`;
  try {
    writeFileSync(draft, jsonText(value), { mode: 0o600, flush: true });
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
}

function readJson(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrorCode(error, 'ENOENT')) return undefined;
    throw unreadable(path, error);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw refusal(
      'home.unreadable',
      `${path} is not JSON.`,
      'Remove it, and start `leasehold up` again.',
    );
  }
}

function unreadable(path: string, error: unknown): CliFailure {
  return refusal(
    'home.unreadable',
    `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    'It belongs to the user who ran `leasehold up`. Set LEASEHOLD_URL and LEASEHOLD_TOKEN instead, or another LEASEHOLD_HOME.',
  );
}

/** What the system says of a lock that is another user's, or is no file, and of a home that cannot be written. */
const NOT_OURS = ['EACCES', 'EPERM', 'EISDIR', 'EROFS'];

/**
 * Makes this process the one `leasehold up` of a home directory, until it ends or calls the
 * returned function.
 *
 * @throws {CliFailure} `up.running` when another one runs; `home.unreadable` when that cannot be known; `home.unusable`
 * when the home cannot be written.
 */
export function lockHome(home: string): () => void {
  const lockPath = lockPathOf(home);
  let answer: ReturnType<typeof tryLock>;
  try {
    answer = tryLock(lockPath);
  } catch (error) {
    if (!NOT_OURS.some((code) => isErrorCode(error, code))) throw error;
    const { path } = error as NodeJS.ErrnoException;
    // Not the lock itself, but what is written beside it.
    if (path !== undefined && path !== lockPath) {
      throw unusable(`The directory ${home} cannot be written`, error);
    }
    throw unreadable(lockPath, error);
  }
  if (answer.outcome === 'locked') return answer.unlock;
  throw refusal(
    'up.running',
    `leasehold up runs already for ${home}, as process ${String(answer.owner.pid)}.`,
    'Use that one, end it with Ctrl-C, or set LEASEHOLD_HOME to another directory.',
  );
}

/** The `leasehold up` of this home that runs now. @throws {CliFailure} `home.unreadable`. */
export function runningUpOf(home: string): ProcessIdentity | undefined {
  const lockPath = lockPathOf(home);
  try {
    return lockOwner(lockPath);
  } catch (error) {
    throw unreadable(lockPath, error);
  }
}

function lockPathOf(home: string): string {
  return join(home, 'up.lock');
}
