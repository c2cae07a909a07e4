/** How many may hold leases of a namespace at once: declared by services, or set by an operator. */
import type { Permits } from '../../kernel/pool.ts';
import { C, type Fragment, fragment, isFound, type Sql } from '../../postgres/sql.ts';

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

/**
 * Whether the numbers of a request `a` may replace those of a declaration `d`. Whether there is a total decides
 * where the slots are, so it cannot change once a pool was opened: that locks the declaration (`openPools`). The
 * declaration is locked by an earlier statement, so that this one's snapshot has every pool that was opened before.
 */
const FITS = fragment`(
  d.permits_per_key is null or (d.permits_total is null) = (a.total is null)
  or not ${isFound(fragment`
    select true from lease l
    where l.face = 'lease' and l.namespace = d.namespace and l.mode = 'permit'`)}
)`;

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
  await lockDeclarations(sql, namespaces);
  await sql.$queryRaw`
    with asked as materialized (${askedRows(requests)})
    update lease_declaration d
    set permits_per_key = a.per_key, permits_total = a.total, permits_by = ${by.actor},
        permits_principal = ${by.principal}
    from asked a
    where d.namespace = a.namespace and ${FITS}
      and (d.permits_per_key is null or d.permits_principal = ${by.principal})
    returning d.namespace`;
  return readPermits(sql, namespaces);
}

/**
 * Sets the numbers as an operator: declarations of services do not change them any more, and retention
 * keeps them. Index: the primary keys.
 * @param sql A transaction: see {@link declarePermits}.
 * @returns the numbers that are in force then; others than those that were asked for if a pool was opened, and
 * whether there is a total would change.
 */
export async function setPermits(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string },
  { request, ttlMs }: { readonly request: PermitsRequest; readonly ttlMs: number },
): Promise<PermitsRow | undefined> {
  const { namespace } = request;
  await sql.$queryRaw`
    insert into lease_declaration (namespace, ttl_ms, declared_by, principal)
    values (${namespace}, ${ttlMs}::int, ${by.actor}, ${by.principal})
    on conflict (namespace) do nothing
    returning namespace`;
  await lockDeclarations(sql, [namespace]);
  await sql.$queryRaw`
    with asked as materialized (${askedRows([request])})
    update lease_declaration d
    set permits_per_key = a.per_key, permits_total = a.total, permits_by = ${by.actor},
        permits_principal = null, declared_at = clock_timestamp()
    from asked a
    where d.namespace = a.namespace and ${FITS}
    returning d.namespace`;
  const [row] = await readPermits(sql, [namespace]);
  return row;
}

async function lockDeclarations(sql: Sql<'general'>, namespaces: readonly string[]): Promise<void> {
  await sql.$queryRaw`
    select d.namespace from lease_declaration d
    where d.namespace = any(${namespaces}::text[])
    order by d.namespace
    for update of d`;
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
