import { randomBytes, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

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
