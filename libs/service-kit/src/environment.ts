import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';

/** The variables of a process. Only each app's `config.ts` reads the real ones. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The values, or all problems with them. */
export type ParsedEnvironment<T> =
  | { readonly outcome: 'valid'; readonly values: T }
  | { readonly outcome: 'invalid'; readonly problems: readonly string[] };

/**
 * Reads an environment by one schema and finds every problem at once, each beginning with the name of
 * its variable. A variable that is set to nothing counts as not set: shells and unit files leave
 * such variables. A secret may be in a file, which the variable with `_FILE` at its end names. Values are never
 * repeated: some are secrets.
 */
export function parseEnvironment<Shape extends z.core.$ZodLooseShape>(
  schema: z.ZodObject<Shape>,
  environment: Environment,
): ParsedEnvironment<z.output<z.ZodObject<Shape>>> {
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const secrets = secretsOfFiles(Object.keys(schema.shape), given);
  if (secrets.problems.length > 0) return { outcome: 'invalid', problems: secrets.problems };
  const parsed = schema.safeParse({ ...given, ...secrets.values });
  if (parsed.success) return { outcome: 'valid', values: parsed.data };
  return {
    outcome: 'invalid',
    problems: parsed.error.issues.map(
      (issue) => `${issue.path.map(String).join('.')}: ${issue.message}`,
    ),
  };
}

/** The variables that may be read from a file: where containers run, secrets are files. */
export const SECRETS = [
  'DATABASE_URL',
  'LEASEHOLD_TOKEN',
  'LEASEHOLD_FIRST_TOKEN',
  'LEASEHOLD_AUTH_SECRET',
  'LEASEHOLD_CONSOLE_SECRET',
  'LEASEHOLD_OIDC_CLIENT_SECRET',
  'LEASEHOLD_PEER_TOKEN',
  'LEASEHOLD_ETCD_PASSWORD',
  'LEASEHOLD_WEBHOOK_SECRET',
  // That of an incoming webhook of Slack is a secret as a whole.
  'LEASEHOLD_WEBHOOK_URL',
] as const;

/** The variable that names the file of another one. */
export function fileVariableOf(name: string): string {
  return `${name}_FILE`;
}

type Values = Readonly<Record<string, string | undefined>>;

/**
 * The secrets among `names` that files have, and what is wrong with the files. A line break at the end of a file is
 * not part of the secret: editors and `echo` leave one.
 */
function secretsOfFiles(
  names: readonly string[],
  given: Values,
): { readonly values: Values; readonly problems: readonly string[] } {
  const values: Record<string, string> = {};
  const problems: string[] = [];
  for (const name of SECRETS.filter((secret) => names.includes(secret))) {
    const variable = fileVariableOf(name);
    const file = given[variable];
    if (file === undefined) continue;
    if (given[name] !== undefined) {
      problems.push(`${variable}: must not be set together with ${name}`);
      continue;
    }
    try {
      values[name] = readFileSync(file, 'utf8').replace(/\r?\n$/u, '');
      if (values[name] === '') problems.push(`${variable}: names an empty file`);
    } catch (error) {
      problems.push(
        `${variable}: cannot be read: ${String((error as NodeJS.ErrnoException).code)}`,
      );
    }
  }
  return { values, problems };
}

const SECRET_BYTES = 32;

/** A secret that processes of one home share, unless it is configured. */
export interface HomeSecret {
  /** The name of its file in the home. */
  readonly file: string;
  /** The variable that configures it instead. */
  readonly variable: string;
}

/** Signs the cookies of people. */
export const AUTH_SECRET: HomeSecret = { file: 'auth-secret', variable: 'LEASEHOLD_AUTH_SECRET' };
/** Proves to a controller that a request comes from its console. */
export const CONSOLE_SECRET: HomeSecret = {
  file: 'console-secret',
  variable: 'LEASEHOLD_CONSOLE_SECRET',
};

/**
 * The configured secret, or else the one in the home, which is made when none exists and which its owner alone
 * may read. Processes that start on one home at once agree on it.
 * @throws {Error} when the file cannot be used, with what to do about it.
 */
export async function readHomeSecret(
  { file, variable }: HomeSecret,
  { configured, home }: { readonly configured: string | null; readonly home: string },
): Promise<string> {
  if (configured !== null) return configured;
  const path = join(home, file);
  try {
    return (await readSecret(path)) ?? (await makeSecret(home, path));
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? 'it is damaged';
    throw new Error(`${path} cannot be used (${reason}): set ${variable}, or repair the file.`, {
      cause,
    });
  }
}

async function readSecret(path: string): Promise<string | undefined> {
  try {
    const text = (await readFile(path, 'utf8')).trim();
    if (text.length >= SECRET_BYTES) return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  throw new Error('the secret is too short');
}

async function makeSecret(home: string, path: string): Promise<string> {
  await mkdir(home, { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, `${randomBytes(SECRET_BYTES).toString('base64url')}\n`, { mode: 0o600 });
  try {
    // `link` fails if another one exists by now, and the file is complete from its first moment.
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  return readFile(path, 'utf8').then((text) => text.trim());
}

// Durations as people type them: `90s`, `10m`, `2h`, or a number of milliseconds.

const MS_OF = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** The milliseconds of a duration; undefined for another text. */
export function readDuration(text: string): number | undefined {
  const [, number, unit = 'ms'] = /^(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d)?$/u.exec(text) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * MS_OF[unit as keyof typeof MS_OF]);
}

/** A duration as it is typed, in the largest unit that leaves no remainder: `90s`, `10m`. */
export function durationWord(durationMs: number): string {
  if (durationMs === 0) return '0';
  const [unit, sizeMs] = Object.entries(MS_OF)
    .toReversed()
    .find(([, size]) => durationMs % size === 0) ?? ['ms', 1];
  return `${String(durationMs / sizeMs)}${unit}`;
}
