/**
 * The installations that a person works with, each under a name, in a file of the user's configuration folder, and
 * which of them a command talks to.
 */
import { chmodSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '@leasehold/service-kit';
import { controllerUrlArray, tokenText } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import type { CliConfig } from './config.ts';
import { refusal, unreachable, usageFailure } from './failures.ts';
import { readCredentials, readRunFile, writePrivateJson } from './home.ts';
import { isErrorCode, tryLock } from './processes.ts';

/** Which controllers commands talk to, and where that is from. */
export interface Target {
  /** null: what runs in the home. */
  readonly urls: readonly string[] | null;
  readonly token: string | null;
  /** The context in use; null where variables, or the home, decide alone. */
  readonly context: string | null;
  /** Where each is from, for people: `LEASEHOLD_URL`, `context staging`. */
  readonly from: { readonly urls: string; readonly token: string };
}

/** Controllers of one database, of which any that answers is used, and a token for them. */
export interface Access {
  readonly urls: readonly string[];
  readonly token: string;
  readonly from: Target['from'];
}

/**
 * Where commands go: to the context that `--context` or LEASEHOLD_CONTEXT names; else to LEASEHOLD_URL;
 * else to the current context; else to what runs in the home. A context's token goes to its own
 * controllers alone.
 * @throws {CliFailure} `context.not_found`, `context.unusable`, or `home.unreadable` for the context `local`.
 */
export function findTarget(config: CliConfig, environment: Environment): Target {
  if (config.context === LOCAL) return findHome(config);
  const context = chosenContext(config, environment);
  if (context === undefined) {
    const { home, urls, token } = config;
    const up = `leasehold up in ${home}`;
    return {
      urls,
      token,
      context: null,
      from: {
        urls: urls === null ? up : 'LEASEHOLD_URL',
        token: token === null ? up : 'LEASEHOLD_TOKEN',
      },
    };
  }
  const { name, urls } = context;
  // Who names a context means its token; the current one gives way to a variable.
  const own = config.context === null ? (config.token ?? context.token) : context.token;
  const isOwn = own !== null && own === context.token;
  return {
    urls,
    context: name,
    token: own ?? config.token,
    from: { urls: `context ${name}`, token: isOwn ? `context ${name}` : 'LEASEHOLD_TOKEN' },
  };
}

/** Who names the home means its token too: that of a variable may be for another installation. */
function findHome({ home, token }: CliConfig): Target {
  const up = `leasehold up in ${home}`;
  const own = readCredentials(home)?.admin;
  const isVariable = own === undefined && token !== null;
  return {
    urls: null,
    token: own ?? token,
    context: null,
    from: { urls: up, token: isVariable ? 'LEASEHOLD_TOKEN' : up },
  };
}

/** undefined: variables, or the home, decide. */
function chosenContext(config: CliConfig, environment: Environment): Context | undefined {
  if (config.context === null && config.urls !== null) return undefined;
  const contexts = readContexts(environment);
  const name = config.context ?? contexts.current;
  return name === null ? undefined : requireContext(contexts, name);
}

/**
 * Where the controllers are and the token for them.
 * @throws {CliFailure} when neither is known.
 */
export function controllerAccess(config: CliConfig, target: Target): Access {
  const { from } = target;
  const isHome = target.urls === null;
  const running = isHome ? readRunFile(config.home)?.controllerUrl : undefined;
  const urls = target.urls ?? (running === undefined ? undefined : [running]);
  if (urls === undefined) {
    throw unreachable(
      `Nothing runs in ${config.home}, LEASEHOLD_URL is not set, and no context is in use.`,
      'Start everything here with `leasehold up`, set LEASEHOLD_URL and LEASEHOLD_TOKEN, or add a context: `leasehold context add --help`.',
    );
  }
  // A token is never sent to an address that it was not made for.
  const token = target.token ?? (isHome ? readCredentials(config.home)?.admin : undefined);
  if (token !== undefined) return { urls, token, from };
  if (target.context !== null) {
    throw usageFailure(
      `The context ${target.context} has no token, and LEASEHOLD_TOKEN is not set.`,
      `\`leasehold context add ${target.context} --replace --token-stdin --controllers ${urls.join(',')}\` keeps one.`,
    );
  }
  throw usageFailure(
    'LEASEHOLD_TOKEN is not set.',
    `The tokens of ${config.home} are for what runs there; \`leasehold tokens create\` makes others.`,
  );
}

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
type Contexts = Readonly<z.output<typeof contextsSchema>>;

/** What is wrong with a name for a context; undefined when nothing is. */
export function contextNameProblem(name: string): string | undefined {
  if (name === LOCAL) return `"${LOCAL}" is what \`leasehold up\` runs: choose another name.`;
  if (CONTEXT_NAME.test(name)) return undefined;
  return 'The name of a context must be 1 to 63 letters, digits, ".", "_" and "-", and begin with a letter or a digit.';
}

/** The file with the contexts; undefined where the user has no configuration folder. */
function contextsPath(environment: Environment): string | undefined {
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
    const unlock = await lockFile(`${path}.lock`, path);
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

async function lockFile(lockPath: string, path: string): Promise<() => void> {
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
