import { createHash, randomBytes } from 'node:crypto';
import type { Role } from '../../kernel/access.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Count, Page, Searched, SearchedPage } from '../../kernel/face-types.ts';
import type { FairUseOverrides } from '../../kernel/fair-use.ts';
import type { ApiToken } from '../../postgres/generated/client.ts';
import { boundedCount, isUuid, pageOf, placeAfter } from '../../postgres/paging.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import { contains, type Fragment, fragment, isoDates, type Sql } from '../../postgres/sql.ts';

/** What a token is bound to besides its role. Each is null for no bound. */
export interface TokenBindings {
  /** The programs that a drone may offer, or a client may start. */
  readonly programs: readonly string[] | null;
  /** How many backends a drone may say it runs at once. */
  readonly capacity: number | null;
  /** Where a drone's backends may be, see `parseAddressRange`. */
  readonly addresses: readonly string[] | null;
  /** Limits of fair use in place of those of the role. */
  readonly limits: FairUseOverrides | null;
}

/** A token in force: who it is, and what it is limited to. */
export interface TokenAccess extends TokenBindings {
  readonly tokenId: string;
  readonly name: string;
  readonly role: Role;
  /** Namespaces, children included; null for no limit. */
  readonly namespaces: readonly string[] | null;
  /** The one drone that a drone's token may act for. */
  readonly droneId: string | null;
}

/** A token as an administrator sees it. Its secret is shown once, when it is made. */
export interface TokenView extends TokenAccess {
  readonly createdBy: string;
  readonly createdAt: string;
  /** ISO-8601; null for never. */
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  readonly lastUsedAt: string | null;
}

type Left = 'namespaces' | 'droneId' | 'expiresAt' | keyof TokenBindings;

/** What may be left out of it is as null: no limit, no end. */
export type NewToken = Pick<TokenView, 'tokenId' | 'name' | 'role' | 'createdBy'> & {
  readonly [Part in Left]?: TokenView[Part] | undefined;
} & { readonly secret: string };

/** The row of a token, without its secret. */
type TokenRow = Omit<ApiToken, 'secretHash'>;

function tokenView({
  id,
  revokedAt,
  lastUsedAt,
  createdBy,
  createdAt,
  expiresAt,
  ...access
}: TokenRow): TokenView {
  return {
    ...tokenAccess({ id, ...access }),
    ...isoDates({ createdAt, expiresAt, revokedAt, lastUsedAt }),
    createdBy,
  };
}

function tokenAccess(row: Pick<TokenRow, AccessField>): TokenAccess {
  const { id, name, role, droneId, capacity } = row;
  return {
    tokenId: id,
    name,
    role: role as Role,
    droneId,
    capacity,
    namespaces: limitsOf(row.namespaces),
    programs: limitsOf(row.programs),
    addresses: limitsOf(row.addresses),
    limits: row.limits as FairUseOverrides | null,
  };
}

/** A token without namespaces, programs or addresses in its row is not limited to any. */
function limitsOf(list: readonly string[] | null): readonly string[] | null {
  return list === null || list.length === 0 ? null : list;
}

type AccessField =
  | 'id'
  | 'name'
  | 'role'
  | 'namespaces'
  | 'droneId'
  | 'programs'
  | 'capacity'
  | 'addresses'
  | 'limits';

const ACCESS_COLUMNS = fragment`t.id, t.name, t.role, t.namespaces, t.drone_id as "droneId", t.programs,
  t.capacity, t.addresses, t.limits`;

const VIEW_COLUMNS = fragment`${ACCESS_COLUMNS}, t.created_by as "createdBy",
  t.created_at as "createdAt", t.expires_at as "expiresAt", t.revoked_at as "revokedAt",
  t.last_used_at as "lastUsedAt"`;

/** Which tokens are in force at an instant of the database's clock. */
function inForceAt(now: Date) {
  return { revokedAt: null, OR: [{ expiresAt: null }, { expiresAt: { gt: now } }] };
}

/**
 * Stores a new token. A secret that is stored already keeps its token.
 * @throws {LeaseError} `request.invalid` when the secret is stored already, or the token would have expired.
 */
export async function insertToken(sql: RecordSql, token: NewToken): Promise<TokenView> {
  const expiresAt = token.expiresAt == null ? null : new Date(token.expiresAt);
  const isOver = expiresAt !== null && expiresAt <= (await readClock(sql));
  const [row] = isOver
    ? []
    : await sql.records.apiToken.createManyAndReturn({
        data: [
          {
            id: token.tokenId,
            name: token.name,
            secretHash: hashTokenSecret(token.secret),
            role: token.role,
            droneId: token.droneId ?? null,
            createdBy: token.createdBy,
            expiresAt,
            capacity: token.capacity ?? null,
            namespaces: [...(token.namespaces ?? [])],
            programs: [...(token.programs ?? [])],
            addresses: [...(token.addresses ?? [])],
            ...(token.limits == null ? {} : { limits: { ...token.limits } }),
          },
        ],
        skipDuplicates: true,
      });
  if (row === undefined) {
    throw new LeaseError('request.invalid', 'expiresAt: must be in the future', {
      details: { field: 'expiresAt' },
    });
  }
  return tokenView(row);
}

/** Tokens, newest first. */
export async function listTokens(sql: Sql<'reads'>, input: SearchedPage): Promise<Page<TokenView>> {
  const [afterAt, afterId] =
    input.cursor === undefined ? [null, null] : placeAfter(input.cursor, isUuid);
  const rows = await sql.$queryRaw<TokenRow[]>`
    select ${VIEW_COLUMNS}
    from api_token t
    where (${afterAt}::timestamptz is null
        or (t.created_at, t.id) < (${afterAt}::timestamptz, ${afterId}::uuid))
      and ${isFound(input)}
    order by t.created_at desc, t.id desc
    limit ${input.limit + 1}`;
  return pageOf(rows.map(tokenView), input.limit, (token) => [token.createdAt, token.tokenId]);
}

/** How many tokens all pages have together. */
export function countTokens(sql: Sql<'reads'>, input: Searched): Promise<Count> {
  return boundedCount(sql, fragment`api_token t where ${isFound(input)}`);
}

/** Whether the search is a part of the token's name or of its drone's id, in any case. */
function isFound({ search }: Searched): Fragment {
  return search === undefined
    ? fragment`true`
    : contains(fragment`concat_ws(' ', t.name, t.drone_id)`, search);
}

/** Ends a token at once. `changed` is false when it was revoked before, or never existed. */
export async function revokeToken(
  sql: RecordSql,
  tokenId: string,
): Promise<{ changed: boolean; name: string | null }> {
  const rows = await sql.records.apiToken.updateManyAndReturn({
    where: { id: tokenId, revokedAt: null },
    data: { revokedAt: await readClock(sql) },
    select: { name: true },
  });
  return { changed: rows.length > 0, name: rows[0]?.name ?? null };
}

/** One token, in force or not; undefined when none exists. Index: the primary key. */
export async function readToken(
  { records }: RecordSql,
  tokenId: string,
): Promise<TokenView | undefined> {
  const row = await records.apiToken.findUnique({ where: { id: tokenId } });
  return row === null ? undefined : tokenView(row);
}

/** The token with this hash, if it is in force. */
export async function findToken(
  sql: Sql<'general'>,
  secretHash: string,
): Promise<TokenAccess | undefined> {
  return (await findTokens(sql, [secretHash])).get(secretHash);
}

/**
 * The tokens with these hashes that are in force: neither revoked nor expired by the database's clock.
 * Index: `api_token_secret_hash_key`.
 */
export async function findTokens(
  sql: Sql<'general' | 'vital'>,
  secretHashes: readonly string[],
): Promise<Map<string, TokenAccess>> {
  const found = await readInForce(sql, fragment`t.secret_hash = any(${[...secretHashes]}::text[])`);
  return new Map(found.map(({ secretHash, ...row }) => [secretHash, tokenAccess(row)]));
}

/** Which of these tokens are still in force. */
export async function tokensInForce(
  sql: Sql<'vital'>,
  tokenIds: readonly string[],
): Promise<Set<string>> {
  const found = await readInForce(sql, fragment`t.id = any(${[...tokenIds]}::uuid[])`);
  return new Set(found.map(({ id }) => id));
}

/** Those of the tokens that are neither revoked nor expired at this moment of the database's clock. */
function readInForce(
  sql: Sql<'general' | 'vital'>,
  isWanted: Fragment,
): Promise<Pick<ApiToken, 'secretHash' | AccessField>[]> {
  return sql.$queryRaw`
    select t.secret_hash as "secretHash", ${ACCESS_COLUMNS}
    from api_token t
    where ${isWanted} and t.revoked_at is null
      and (t.expires_at is null or clock_timestamp() < t.expires_at)`;
}

/** The first tokens in force that are bound to a drone. */
export async function readTokensOf(
  sql: RecordSql,
  droneId: string,
  limit: number,
): Promise<{ tokenId: string; name: string }[]> {
  const rows = await sql.records.apiToken.findMany({
    where: { droneId, ...inForceAt(await readClock(sql)) },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
    take: limit,
    select: { id: true, name: true },
  });
  return rows.map(({ id, name }) => ({ tokenId: id, name }));
}

/** How many tokens in force somebody made: they keep working whatever happens to their maker. */
export async function countTokensMadeBy(sql: RecordSql, actor: string): Promise<number> {
  const now = await readClock(sql);
  return sql.records.apiToken.count({ where: { createdBy: actor, ...inForceAt(now) } });
}

/** Writes down that tokens were used. One statement for all, from the background. */
export async function markTokensUsed(
  sql: Sql<'vital'>,
  tokenIds: readonly string[],
): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    with used as materialized (
      select t.id
      from api_token t
      where t.id = any(${[...tokenIds]}::uuid[])
      order by t.id
      for no key update skip locked
    )
    update api_token t
    set last_used_at = clock_timestamp()
    from used u
    where t.id = u.id
    returning t.id::text`;
}

/** Whether anybody could administer this database with a token. */
export async function hasAdminToken(sql: RecordSql): Promise<boolean> {
  const where = { role: 'admin', ...inForceAt(await readClock(sql)) };
  return (await sql.records.apiToken.findFirst({ where, select: { id: true } })) !== null;
}

const SECRET_BYTES = 32;
const SECRET_FORM = /^lh_[A-Za-z0-9_-]{43}$/u;

/** A new secret: `lh_` and 32 random bytes. */
export function newTokenSecret(): string {
  return `lh_${randomBytes(SECRET_BYTES).toString('base64url')}`;
}

/** Whether a text has the form of a secret; says nothing about whether it is one. */
export function isTokenSecret(text: string): boolean {
  return SECRET_FORM.test(text);
}

/**
 * What is stored of a secret, and what it is found by. Secrets are random, so a plain hash is
 * enough: nobody can guess one, and the time of a lookup says nothing about a secret near it.
 */
export function hashTokenSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
