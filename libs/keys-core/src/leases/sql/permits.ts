import { LeaseError } from '../../kernel/errors.ts';
import type { Permits, PoolHolder, PoolUse, SlotMode } from '../../kernel/lease.ts';
import { type Named, namespaceText } from '../../kernel/resource.ts';
import { type ListedLease, SHOWN_LEASE_COLUMNS, withinLimits } from '../../lists/index.ts';
import {
  C,
  type Fragment,
  fragment,
  IS_IN_FORCE,
  LEASE_COLUMNS,
  onlyRow,
  type Sql,
  TOKEN_FLOOR,
} from '../../postgres/sql.ts';

/** How many holders of one lease are shown. */
const HOLDERS_SHOWN_MAX = 100;

export interface PoolFound {
  readonly use: PoolUse;
  /** The holder whose grant expires first, or the pool's own row, which is free. */
  readonly row: ListedLease;
}

type PoolRow = Omit<ListedLease, 'pool' | 'mode'> & {
  readonly pool: string;
  readonly mode: SlotMode;
  readonly perKey: number | null;
  readonly total: number | null;
  readonly usedOfAll: number;
  readonly usedOfKey: number;
};

/**
 * Reads a lease that several may hold at once; undefined if it is no such lease, or the caller may not see it.
 * Locks nothing. Index: the primary key of `lease`: slots are beside the scope, or where all keys have a limit
 * together, the first names of the namespace.
 */
export async function readPool(
  sql: Sql<'reads'>,
  { namespace, name }: Named,
  namespaces: readonly string[] | null,
): Promise<PoolFound | undefined> {
  const rows = await sql.$queryRaw<PoolRow[]>`
    with own as materialized (
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C} and l.name = ${name} ${C}
        and l.pool = l.name and ${withinLimits(namespaces)}
    ),
    live as materialized (
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C}
        and l.name > chr(31) ${C} and l.name < ' ' ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
      union all
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C}
        and l.name > ${`${name}\u001F`} ${C} and l.name < ${`${name} `} ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ),
    shown as (
      select o.* from own o
      union all
      (
        select v.* from live v join own o on o.pool = v.pool
        order by v.expires_at
        limit ${HOLDERS_SHOWN_MAX}
      )
    )
    select ${LEASE_COLUMNS}, ${SHOWN_LEASE_COLUMNS}, l.metadata, true as "isOnPage",
      d.permits_per_key as "perKey", d.permits_total as total,
      (select count(*)::int from live v) as "usedOfAll",
      (select count(*)::int from live v where v.pool = l.pool) as "usedOfKey",
      (
        select count(*)::int from lease_waiter w
        where w.face = 'lease' and w.namespace = l.namespace and w.name = l.pool
          and w.valid_until > clock_timestamp()
      ) as waiters
    from shown l
    left join lease_declaration d on d.namespace = l.namespace
    order by l.expires_at`;
  const own = rows.find((row) => row.name === row.pool);
  if (own === undefined) return undefined;
  const holders = rows.filter((row) => row !== own);
  return { use: useOf(own, holders), row: holders[0] ?? { ...own, mode: null, stopsBy: null } };
}

function useOf(own: PoolRow, holders: readonly PoolRow[]): PoolUse {
  const { perKey, total, usedOfAll, usedOfKey } = own;
  const isShared = own.mode !== 'permit';
  return {
    kind: isShared ? 'shared' : 'permit',
    used: usedOfKey,
    permits: isShared ? null : perKey,
    total: isShared || total === null ? null : { used: usedOfAll, permits: total },
    holders: holders.map(({ leaseId, fencingToken, holder, mode, ...row }): PoolHolder => ({
      leaseId,
      fencingToken,
      holder,
      mode,
      grantedAt: row.grantedAt,
      expiresAt: row.expiresAt,
    })),
  };
}

/**
 * How many hold any key of a namespace, and how many may; null where there is no such limit. Locks nothing. Index: the
 * primary keys.
 */
export async function readTotal(
  sql: Sql<'reads'>,
  namespace: string,
): Promise<{ used: number; permits: number } | null> {
  const [row] = await sql.$queryRaw<{ used: number; permits: number }[]>`
    select d.permits_total as permits, (
        select count(*)::int from lease l
        where l.face = 'lease' and l.namespace = d.namespace
          and l.name > chr(31) ${C} and l.name < ' ' ${C} and ${IS_IN_FORCE}
      ) as used
    from lease_declaration d
    where d.namespace = ${namespace} ${C} and d.permits_total is not null`;
  return row ?? null;
}

/** Of how many namespaces the share is read. */
const SHARES_MAX = 50;

/**
 * Which share of the permits of all keys together is in use, by namespace: the largest ones. Locks nothing. Index: the
 * primary key of `lease`, for the slots of each namespace.
 */
export async function readPermitShares(sql: Sql<'general'>): Promise<Record<string, number>> {
  const rows = await sql.$queryRaw<{ namespace: string; share: number }[]>`
    select d.namespace, v.used::float8 / d.permits_total as share
    from lease_declaration d
    cross join lateral (
      select count(*) as used from lease l
      where l.face = 'lease' and l.namespace = d.namespace
        and l.name > chr(31) ${C} and l.name < ' ' ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ) v
    where d.permits_total is not null
    order by share desc, d.namespace
    limit ${SHARES_MAX}`;
  return Object.fromEntries(rows.map(({ namespace, share }) => [namespace, share]));
}

/** How many may hold leases of a namespace at once: declared by services, or set by an operator. */

/** Numbers for the leases of a namespace. */
export interface PermitsRequest {
  readonly namespace: string;
  readonly permits: Permits;
}

/** The numbers in force, and whose they are: a service's, or an operator's if no principal. */
export interface PermitsRow extends Permits {
  readonly namespace: string;
  readonly by: string;
  readonly principal: string | null;
}

/** How many rows of pools are moved at most when a total comes or goes. */
const MOVED_MAX = 5_000;
/** How long that waits for a row, in milliseconds: fenced work may keep one. */
const LOCK_MS = 1_000;

/**
 * Records the numbers that a service declares, where none are in force, or those that it has declared
 * before. A number that an operator has set stays. Rows are locked in the order of namespaces, which must be
 * declared already. Index: the primary keys.
 * @param sql A transaction: it locks first, and judges by another statement.
 * @returns the numbers that are in force then, of each namespace.
 */
export async function declarePermits(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string },
  requests: readonly PermitsRequest[],
): Promise<PermitsRow[]> {
  const namespaces = requests.map(({ namespace }) => namespace);
  const before = await lockDeclarations(sql, namespaces);
  await sql.$queryRaw`
    with asked as materialized (${askedRows(requests)})
    update lease_declaration d
    set permits_per_key = a.per_key, permits_total = a.total, permits_by = ${by.actor},
        permits_principal = ${by.principal}
    from asked a
    where d.namespace = a.namespace
      and (d.permits_per_key is null or d.permits_principal = ${by.principal})
    returning d.namespace`;
  const rows = await readPermits(sql, namespaces);
  await moveSlots(sql, before, rows);
  return rows;
}

/**
 * Sets the numbers as an operator: declarations of services do not change them any more, and retention
 * keeps them. Index: the primary keys.
 * @param sql A transaction: see {@link declarePermits}.
 */
export async function setPermits(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string },
  { request, ttlMs }: { readonly request: PermitsRequest; readonly ttlMs: number },
): Promise<PermitsRow> {
  const { namespace } = request;
  await sql.$queryRaw`
    insert into lease_declaration (namespace, ttl_ms, declared_by, principal)
    values (${namespace}, ${ttlMs}::int, ${by.actor}, ${by.principal})
    on conflict (namespace) do nothing
    returning namespace`;
  const before = await lockDeclarations(sql, [namespace]);
  await sql.$queryRaw`
    with asked as materialized (${askedRows([request])})
    update lease_declaration d
    set permits_per_key = a.per_key, permits_total = a.total, permits_by = ${by.actor},
        permits_principal = null, declared_at = clock_timestamp()
    from asked a
    where d.namespace = a.namespace
    returning d.namespace`;
  const rows = await readPermits(sql, [namespace]);
  await moveSlots(sql, before, rows);
  return onlyRow(rows);
}

/** The numbers that are in force. The rows of all are locked: no pool is opened. */
async function lockDeclarations(
  sql: Sql<'general'>,
  namespaces: readonly string[],
): Promise<PermitsRow[]> {
  await sql.$queryRaw`
    select d.namespace from lease_declaration d
    where d.namespace = any(${namespaces}::text[])
    order by d.namespace
    for update of d`;
  return readPermits(sql, namespaces);
}

/**
 * Moves the slots of namespaces where a total has come or gone, because with one they are those of the namespace, and
 * without one those of each key: see `pools.ts`. Grants stay as they are, with their lease ids and tokens.
 *
 * - **Locks** the own rows, and moves by another statement, whose snapshot has every grant of these pools. A statement
 *   that grants and has seen an own row before finds it changed, and grants nothing. No own row comes meanwhile: who
 *   would open a pool waits for the declaration or passes over it, see `openPools`, and finds it changed.
 * - **Tokens grow**: every pool goes on above the floor, which is raised to the largest token of the own rows.
 * - **Index**: the primary keys.
 *
 * @throws {LeaseError} `lease.permits_differ` for more than {@link MOVED_MAX} rows; `grant.contended`.
 */
async function moveSlots(
  sql: Sql<'general'>,
  before: readonly PermitsRow[],
  after: readonly PermitsRow[],
): Promise<void> {
  const hadTotal = new Map(before.map((row) => [row.namespace, row.total !== null]));
  const isMoved = ({ namespace, total }: PermitsRow): boolean =>
    hadTotal.get(namespace) === (total === null);
  const namespaces = after.filter(isMoved).map(({ namespace }) => namespace);
  if (namespaces.length === 0) return;
  await sql.$queryRaw`select set_config('lock_timeout', ${String(LOCK_MS)}, true)`;
  const rows = await sql.$queryRaw<{ namespace: string }[]>`
    select l.namespace from lease l
    where l.face = 'lease' and l.namespace = any(${namespaces}::text[]) and l.mode = 'permit'
    order by l.namespace, l.name
    limit ${MOVED_MAX + 1}
    for update of l`;
  if (rows.length > MOVED_MAX) throw tooMany(rows[0]?.namespace ?? '');
  await sql.$queryRaw`
    with own as (
      update lease l
      set fencing_token = lease_next_token(greatest(l.fencing_token, ${TOKEN_FLOOR}))
      where l.face = 'lease' and l.namespace = any(${namespaces}::text[]) and l.mode = 'permit'
        and l.pool = l.name
      returning l.fencing_token
    ),
    raised as (
      update lease_token_floor t
      set floor = greatest(t.floor, o.token)
      from (select max(o.fencing_token) as token from own o) o
      where o.token > t.floor
    )
    update lease l
    set name = case when d.permits_total is null then l.pool else '' end || chr(31) || s.number
    from (
      select s.lease_id, s.namespace, row_number() over (
        partition by s.namespace, case when d.permits_total is null then s.pool end order by s.name
      ) as number
      from lease s
      join lease_declaration d on d.namespace = s.namespace
      where s.face = 'lease' and s.namespace = any(${namespaces}::text[]) and s.mode = 'permit'
        and s.pool <> s.name
    ) s
    join lease_declaration d on d.namespace = s.namespace
    where l.lease_id = s.lease_id
    returning l.namespace`;
}

function tooMany(namespace: string): LeaseError {
  return new LeaseError(
    'lease.permits_differ',
    `More than ${String(MOVED_MAX)} keys and permits of ${namespaceText(namespace)} are in use. Whether there is a total can change once there are fewer: a key that nobody holds is forgotten after a day.`,
    { details: { namespace } },
  );
}

function readPermits(sql: Sql<'general'>, namespaces: readonly string[]): Promise<PermitsRow[]> {
  return sql.$queryRaw<PermitsRow[]>`
    select ${PERMITS} from lease_declaration d
    where d.namespace = any(${namespaces}::text[]) and d.permits_per_key is not null
    order by d.namespace`;
}

const PERMITS = fragment`
  d.namespace, d.permits_per_key as "perKey", d.permits_total as total, d.permits_by as by,
  d.permits_principal as principal`;

function askedRows(requests: readonly PermitsRequest[]): Fragment {
  return fragment`
    select a.namespace ${C} as namespace, a.per_key, a.total
    from unnest(
      ${requests.map(({ namespace }) => namespace)}::text[],
      ${requests.map(({ permits }) => permits.perKey)}::int[],
      ${requests.map(({ permits }) => permits.total)}::int[]
    ) as a (namespace, per_key, total)`;
}
