/** The installations that a person works with, each under a name, in a file of the user's configuration folder. */
import { chmodSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '@leasehold/service-kit';
import { controllerUrlArray, tokenText } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { refusal, usageFailure } from '../failures/failure.ts';
import { writePrivateJson } from '../home.ts';
import { isErrorCode, tryLock } from '../processes.ts';

/** The name of what `leasehold up` runs in the home: it is always there, and in no file. */
export const LOCAL = 'local';

const CONTEXT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/u;
const CONTEXTS_MAX = 1_000;
/** Everybody but the owner. */
const OTHERS = 0o077;
const LOCK_TRIES_MAX = 250;
const LOCK_RETRY_MS = 20;

const contextSchema = z.strictObject({
  name: z.string().refine((name) => contextNameProblem(name) === undefined),
  urls: controllerUrlArray,
  token: tokenText.nullable(),
});

const contextsSchema = z
  .strictObject({
    /** null: what runs in the home. */
    current: z.string().nullable(),
    contexts: z.array(contextSchema).max(CONTEXTS_MAX),
  })
  .refine(({ contexts }) => new Set(contexts.map(({ name }) => name)).size === contexts.length)
  .refine(
    ({ current, contexts }) => current === null || contextIn(contexts, current) !== undefined,
  );

/** One installation: its controllers, and the token for them if it is kept here. */
export type Context = Readonly<z.output<typeof contextSchema>>;
export type Contexts = Readonly<z.output<typeof contextsSchema>>;

/** What is wrong with a name for a context; undefined when nothing is. */
export function contextNameProblem(name: string): string | undefined {
  if (name === LOCAL) return `"${LOCAL}" is what \`leasehold up\` runs: choose another name.`;
  if (CONTEXT_NAME.test(name)) return undefined;
  return 'The name of a context must be 1 to 63 letters, digits, ".", "_" and "-", and begin with a letter or a digit.';
}

/** The file with the contexts; undefined where the user has no configuration folder. */
export function contextsPath(environment: Environment): string | undefined {
  const { XDG_CONFIG_HOME: configured = '', HOME: home = '' } = environment;
  // The XDG specification says to ignore a relative one.
  if (isAbsolute(configured)) return join(configured, 'leasehold', 'contexts.json');
  return isAbsolute(home) ? join(home, '.config', 'leasehold', 'contexts.json') : undefined;
}

/** @throws {CliFailure} `context.unusable` for a file that others may read, or that is damaged. */
export function readContexts(environment: Environment): Contexts {
  const path = contextsPath(environment);
  return path === undefined ? NONE : readFile(path);
}

/**
 * Changes the contexts. One process changes them at a time, and others read the file before or after.
 * @throws {CliFailure} `context.unusable`, or what `change` throws; nothing is changed then.
 */
export async function changeContexts(
  environment: Environment,
  change: (contexts: Contexts) => Contexts,
): Promise<void> {
  const path = contextsPath(environment);
  if (path === undefined) {
    throw usageFailure(
      'Neither XDG_CONFIG_HOME nor HOME is set, so there is no place for contexts.',
    );
  }
  try {
    makePrivate(dirname(path));
    const unlock = await locked(`${path}.lock`, path);
    try {
      writePrivateJson(targetOf(path), change(readFile(path)));
    } finally {
      unlock();
    }
  } catch (error) {
    throw isSystemError(error) ? unusable(`${path} cannot be written: ${error.message}`) : error;
  }
}

/** @throws {CliFailure} `context.not_found`. */
export function requireContext({ contexts }: Contexts, name: string): Context {
  const found = contextIn(contexts, name);
  if (found !== undefined) return found;
  throw refusal(
    'context.not_found',
    `There is no context ${JSON.stringify(name)}.`,
    '`leasehold context ls` lists them; `leasehold context add` makes one.',
  );
}

export function contextIn(contexts: readonly Context[], name: string): Context | undefined {
  return contexts.find((one) => one.name === name);
}

const NONE: Contexts = { current: null, contexts: [] };

function readFile(path: string): Contexts {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
    if ((statSync(path).mode & OTHERS) !== 0) {
      throw unusable(
        `Others may read or change ${path}, which has tokens.`,
        `Run \`chmod 600 ${path}\`.`,
      );
    }
  } catch (error) {
    if (isErrorCode(error, 'ENOENT')) return NONE;
    throw isSystemError(error) ? unusable(`${path} cannot be read: ${error.message}`) : error;
  }
  const parsed = contextsSchema.safeParse(jsonIn(text));
  if (parsed.success) return parsed.data;
  throw unusable(
    `${path} is not a list of contexts.`,
    'Correct it, or remove it and add the contexts again; LEASEHOLD_URL and LEASEHOLD_TOKEN work without it.',
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function makePrivate(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if ((statSync(folder).mode & OTHERS) !== 0) chmodSync(folder, 0o700);
}

/** The file itself: a link to it, as those who keep such files elsewhere have, stays a link. */
function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

async function locked(lockPath: string, path: string): Promise<() => void> {
  let answer = tryLock(lockPath);
  for (let left = LOCK_TRIES_MAX; answer.outcome === 'held' && left > 0; left -= 1) {
    await delay(LOCK_RETRY_MS);
    answer = tryLock(lockPath);
  }
  if (answer.outcome === 'locked') return answer.unlock;
  throw unusable(`Process ${String(answer.owner.pid)} changes ${path} and does not end.`);
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

function unusable(message: string, hint?: string): Error {
  return refusal('context.unusable', message, hint);
}
