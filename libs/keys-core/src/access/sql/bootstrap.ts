import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Role } from '../../kernel/access.ts';
import type { Store } from '../../postgres/open-store.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import type { Sql } from '../../postgres/sql.ts';
import {
  findToken,
  hasAdminToken,
  hashTokenSecret,
  insertToken,
  isTokenSecret,
  newTokenSecret,
  revokeToken,
  type TokenBindings,
} from './api-tokens.ts';
import { hashPassword, newPassword, setPassword, verifyPassword } from './accounts.ts';
import { writeAudit } from './audit.ts';
import { endSessionsOf } from './sessions.ts';
import { forgetSignInFailures } from './sign-in-failures.ts';

/** The email address of the first administrator when none is given. */
export const FIRST_ADMIN_EMAIL = 'admin@leasehold.local';

/** What an administrator signs in with; the password is in this answer and nowhere else. */
export interface AdminSignIn {
  readonly email: string;
  readonly password: string;
}

type People = Pick<Store, 'general'>;

/**
 * Makes an administrator with a new password, unless one can sign in already: then undefined, and
 * nothing is changed. Only one of several calls at once makes them. `keep` is called before others can see
 * them: a caller that writes the password down in it cannot lose it, and nobody is made when it throws.
 */
export async function ensureFirstAdmin(
  store: People,
  input: { readonly email: string; readonly name?: string | undefined },
  keep: (signIn: AdminSignIn) => void = () => undefined,
): Promise<AdminSignIn | undefined> {
  if (await hasActiveAdmin(store.general)) return undefined;
  const email = input.email.toLowerCase();
  const password = newPassword();
  const passwordHash = await hashPassword(password);
  const isMade = await store.general.$transaction(async (tx) => {
    const made = await insertFirstAdmin(tx, { email, name: input.name ?? email });
    if (made === undefined) return false;
    await setPassword(tx, made, passwordHash);
    await auditMaking(tx, { personId: made, email });
    keep({ email, password });
    return true;
  });
  return isMade ? { email, password } : undefined;
}

/**
 * Makes an administrator, whatever the person was before: a new person, or one who was disabled, locked out,
 * demoted, or has lost the password. Sessions of theirs end; a controller that gets the hint learns
 * it at once. For the person who has the database, when nobody can sign in any more.
 */
export async function makeAdmin(
  store: People,
  input: { readonly email: string; readonly name?: string | undefined; readonly password: string },
): Promise<{ personId: string; isNew: boolean }> {
  const email = input.email.toLowerCase();
  const passwordHash = await hashPassword(input.password);
  return store.general.$transaction(async (tx) => {
    const made = await upsertAdmin(tx, { email, name: input.name ?? null });
    await setPassword(tx, made.personId, passwordHash);
    await endSessionsOf(tx, made.personId);
    await forgetSignInFailures(tx, email);
    await auditMaking(tx, { personId: made.personId, email });
    return made;
  });
}

async function auditMaking(
  sql: RecordSql,
  made: { readonly personId: string; readonly email: string },
): Promise<void> {
  await writeAudit(sql, {
    actor: 'command line',
    role: 'admin',
    action: 'people.makeAdmin',
    resource: `person:${made.personId}`,
    detail: { email: made.email },
  });
}

/** Whether anybody can administer with the console: an administrator with a way to sign in. */
async function hasActiveAdmin({ records }: RecordSql): Promise<boolean> {
  const where = { role: 'admin', disabledAt: null, joinedAt: { not: null } };
  return (await records.person.findFirst({ where, select: { id: true } })) !== null;
}

/** Undefined: there is an administrator, or somebody with this address; of several calls at once one makes it. */
async function insertFirstAdmin(
  sql: RecordSql,
  input: { email: string; name: string },
): Promise<string | undefined> {
  if (await hasActiveAdmin(sql)) return undefined;
  const [made] = await sql.records.person.createManyAndReturn({
    data: [{ id: randomUUID(), ...input, role: 'admin', joinedAt: await readClock(sql) }],
    skipDuplicates: true,
    select: { id: true },
  });
  return made?.id;
}

/**
 * One statement, because it changes whatever the person is at that moment. Locks the person's row. Index:
 * `person_email_key`. Always one row.
 */
async function upsertAdmin(sql: Sql<'general'>, input: { email: string; name: string | null }) {
  const [row] = await sql.$queryRaw<{ personId: string; isNew: boolean }[]>`
    insert into person as p (id, email, name, role, joined_at)
    values (
      ${randomUUID()}::uuid, ${input.email}, ${input.name ?? input.email}, 'admin', clock_timestamp()
    )
    on conflict (email) do update
    set role = 'admin',
      namespaces = null,
      name = coalesce(${input.name}, p.name),
      joined_at = coalesce(p.joined_at, clock_timestamp()),
      disabled_at = null,
      invitation_hash = null,
      invitation_expires_at = null,
      updated_at = clock_timestamp()
    returning p.id::text as "personId", (xmax = 0) as "isNew"`;
  if (row === undefined) throw new Error('a person was neither made nor changed');
  return row;
}

/**
 * Whether this opens the console to an administrator at this moment: for a caller that kept a
 * password and must know if it was changed since. Counts no try, and locks nobody out.
 */
export async function isAdminSignIn(
  sql: RecordSql,
  { email, password }: AdminSignIn,
): Promise<boolean> {
  const hash = await passwordHashOf(sql, email.toLowerCase());
  return hash !== undefined && (await verifyPassword(hash, password));
}

/** Undefined: there is no such person, or they are no administrator, disabled, or without a password. */
async function passwordHashOf({ records }: RecordSql, email: string): Promise<string | undefined> {
  const account = await records.personAccount.findFirst({
    where: { providerId: 'credential', person: { email, role: 'admin', disabledAt: null } },
    select: { password: true },
  });
  return account?.password ?? undefined;
}

/** What `credentials.json` holds: one secret for each role; that of a drone is the first drone's. */
export type Credentials = Readonly<Record<(typeof CREDENTIAL_ROLES)[number], string>>;

/** What the token of the first drone is bound to. */
export type DroneBindings = Pick<TokenBindings, 'programs' | 'capacity' | 'addresses'>;

const UNBOUND: DroneBindings = { programs: null, capacity: null, addresses: null };

const CREDENTIAL_ROLES = ['admin', 'operator', 'client', 'viewer', 'drone', 'gateway'] as const;

/** The beginning of the maker of tokens for a file; the place of the file follows it. */
const MAKER = 'bootstrap';

/**
 * Writes the first credentials of a database into a file, unless there is an administrator's token
 * already. Only one of several calls at once writes them, and the others learn where: `place` names
 * the file for people, with its machine. The file is whole before its tokens are in force, so a
 * crash between the two is repaired by the next start.
 * @returns where they are; null when nobody knows any more.
 */
export async function writeFirstCredentials(
  store: Pick<Store, 'general'>,
  file: { readonly path: string; readonly place: string },
): Promise<{ readonly outcome: 'written' | 'kept'; readonly place: string | null }> {
  if (await hasAdminToken(store.general)) {
    return { outcome: 'kept', place: await placeOf(store.general) };
  }
  return store.general.$transaction(async (tx) => {
    // The second one waits here, and then sees the tokens of the first.
    await tx.$executeRaw`lock table api_token in share row exclusive mode`;
    if (await hasAdminToken(tx)) return { outcome: 'kept', place: await placeOf(tx) };
    await bootstrapCredentials({ general: tx }, file.path, { droneIds: [], place: file.place });
    return { outcome: 'written', place: file.place };
  });
}

/**
 * Makes this secret the first administrator's token, unless there is one already. A secret that was a token before, and was
 * revoked, stays revoked.
 * @returns whether it was made now.
 */
export async function makeFirstToken(
  store: Pick<Store, 'general'>,
  secret: string,
): Promise<boolean> {
  if (await hasAdminToken(store.general)) return false;
  return store.general.$transaction(async (tx) => {
    // The second controller waits here, and then sees the token of the first.
    await tx.$executeRaw`lock table api_token in share row exclusive mode`;
    if (await hasAdminToken(tx)) return false;
    const where = { secretHash: hashTokenSecret(secret) };
    if ((await tx.records.apiToken.findUnique({ where })) !== null) return false;
    await insertToken(tx, {
      tokenId: randomUUID(),
      secret,
      name: 'first',
      role: 'admin',
      droneId: null,
      ...UNBOUND,
      createdBy: 'LEASEHOLD_FIRST_TOKEN',
    });
    return true;
  });
}

/** No row: the tokens of the file were revoked, or are of a version that did not note the place. */
async function placeOf({ records }: RecordSql): Promise<string | null> {
  const prefix = `${MAKER} `;
  const token = await records.apiToken.findFirst({
    where: { role: 'admin', revokedAt: null, createdBy: { startsWith: prefix } },
    orderBy: { createdAt: 'asc' },
    select: { createdBy: true },
  });
  return token?.createdBy.slice(prefix.length) ?? null;
}

/**
 * Makes sure that every secret in the file is a token in force of its role, and returns them.
 * Secrets that are good already stay; others, and the file itself, are created again. The file is
 * readable by its owner alone, and it is replaced as a whole, so that nobody reads half of it.
 * What else the file holds is kept.
 */
export async function bootstrapCredentials(
  store: { readonly general: RecordSql },
  path: string,
  options: {
    readonly droneIds: readonly string[];
    readonly place?: string | undefined;
    readonly bindings?: DroneBindings | undefined;
  },
): Promise<Credentials> {
  const known = await readCredentials(path);
  const secrets: Partial<Record<Role, string>> = {};
  for (const role of CREDENTIAL_ROLES) {
    const droneId = role === 'drone' ? (options.droneIds[0] ?? null) : null;
    const createdBy = options.place === undefined ? MAKER : `${MAKER} ${options.place}`;
    const bindings = role === 'drone' ? (options.bindings ?? UNBOUND) : UNBOUND;
    secrets[role] = await ensureToken(store.general, {
      role,
      droneId,
      createdBy,
      bindings,
      secret: known[role],
    });
  }
  const credentials = secrets as Credentials;
  await writePrivately(path, { ...known, ...credentials });
  return credentials;
}

/**
 * The secret given, if it is a token in force of this role and drone with these bindings; else a new
 * one. A token of this role for another drone, or with other bindings, is revoked: it may do more.
 */
async function ensureToken(
  sql: RecordSql,
  wanted: {
    readonly role: Role;
    readonly droneId: string | null;
    readonly createdBy: string;
    readonly secret: unknown;
    readonly bindings: DroneBindings;
  },
): Promise<string> {
  if (typeof wanted.secret === 'string' && isTokenSecret(wanted.secret)) {
    const found = await findToken(sql, hashTokenSecret(wanted.secret));
    if (found?.role === wanted.role) {
      const isOfDrone = found.droneId === wanted.droneId;
      if (isOfDrone && isBoundAs(found, wanted.bindings)) return wanted.secret;
      await revokeToken(sql, found.tokenId);
    }
  }
  const secret = newTokenSecret();
  await insertToken(sql, {
    tokenId: randomUUID(),
    secret,
    name:
      wanted.droneId === null ? `bootstrap ${wanted.role}` : `bootstrap drone ${wanted.droneId}`,
    role: wanted.role,
    droneId: wanted.droneId,
    createdBy: wanted.createdBy,
    ...wanted.bindings,
  });
  return secret;
}

function isBoundAs(found: DroneBindings, wanted: DroneBindings): boolean {
  const partsOf = ({ programs, capacity, addresses }: DroneBindings): string =>
    JSON.stringify([programs, capacity, addresses]);
  return partsOf(found) === partsOf(wanted);
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
    // A truncated file is useless; its tokens can be revoked by name.
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
