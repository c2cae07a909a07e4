import { randomBytes, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LeaseError } from '@leasehold/keys-core';

const SECRET_BYTES = 32;
const FILE_NAME = 'auth-secret';

/**
 * The secret that cookies are signed with: the configured one, or the one in the home, which is made
 * when none exists and which its owner alone may read. Two controllers that start on one home at
 * once agree on it.
 * @throws {LeaseError} `config.invalid` when the file cannot be used.
 */
export async function readAuthSecret(config: {
  readonly authSecret: string | null;
  readonly home: string;
}): Promise<string> {
  if (config.authSecret !== null) return config.authSecret;
  const path = join(config.home, FILE_NAME);
  try {
    return (await readSecret(path)) ?? (await makeSecret(config.home, path));
  } catch (error) {
    if (error instanceof LeaseError) throw error;
    const reason = (error as NodeJS.ErrnoException).code ?? 'it is damaged';
    throw new LeaseError(
      'config.invalid',
      `${path} cannot be used (${reason}): set LEASEHOLD_AUTH_SECRET, or repair the file.`,
      { cause: error },
    );
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
