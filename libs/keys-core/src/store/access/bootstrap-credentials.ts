import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Role } from '../../kernel/roles.ts';
import type { Sql } from '../rows.ts';
import { findToken, insertToken } from './api-tokens.ts';
import { hashTokenSecret, isTokenSecret, newTokenSecret } from './token-secret.ts';

/** What `credentials.json` holds: one secret for each role. */
export interface Credentials {
  readonly admin: string;
  readonly operator: string;
  readonly client: string;
  readonly viewer: string;
  /** The token of the first drone. */
  readonly drone: string;
}

const CREDENTIAL_ROLES = [
  'admin',
  'operator',
  'client',
  'viewer',
  'drone',
] as const satisfies Role[];

/**
 * Sees to it that every secret in the file is a token in force of its role, and answers them.
 * Secrets that are good already stay; others, and the file itself, are made anew. The file is
 * readable by its owner alone, and it is replaced as a whole, so that nobody reads half of it.
 * What else the file holds is kept.
 */
export async function bootstrapCredentials(
  store: { readonly prisma: Sql },
  path: string,
  options: { readonly droneIds: readonly string[] },
): Promise<Credentials> {
  const known = await readCredentials(path);
  const secrets: Partial<Record<Role, string>> = {};
  for (const role of CREDENTIAL_ROLES) {
    const droneId = role === 'drone' ? (options.droneIds[0] ?? null) : null;
    secrets[role] = await ensureToken(store.prisma, { role, droneId, secret: known[role] });
  }
  const credentials = secrets as Credentials;
  await writePrivately(path, { ...known, ...credentials });
  return credentials;
}

/** The secret given, if it is a token in force of this role and drone; else a new one. */
async function ensureToken(
  sql: Sql,
  wanted: { readonly role: Role; readonly droneId: string | null; readonly secret: unknown },
): Promise<string> {
  if (typeof wanted.secret === 'string' && isTokenSecret(wanted.secret)) {
    const found = await findToken(sql, hashTokenSecret(wanted.secret));
    if (found?.role === wanted.role && found.droneId === wanted.droneId) return wanted.secret;
  }
  const secret = newTokenSecret();
  await insertToken(sql, {
    tokenId: randomUUID(),
    secret,
    name:
      wanted.droneId === null ? `bootstrap ${wanted.role}` : `bootstrap drone ${wanted.droneId}`,
    role: wanted.role,
    namespaces: null,
    droneId: wanted.droneId,
    createdBy: 'bootstrap',
    expiresAt: null,
  });
  return secret;
}

async function readCredentials(path: string): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    // A file that was cut off is worth nothing; its tokens can be revoked by name.
    return {};
  }
}

async function writePrivately(path: string, content: unknown): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  await chmod(draft, 0o600);
  await rename(draft, path);
}
