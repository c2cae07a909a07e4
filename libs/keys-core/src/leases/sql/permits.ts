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
 * where the slots are, so it cannot change while there are any.
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
 * @returns the numbers that are in force then, of each namespace.
 */
export async function declarePermits(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string },
  requests: readonly PermitsRequest[],
): Promise<PermitsRow[]> {
  await sql.$queryRaw`
    with asked as materialized (${askedRows(requests)}),
    locked as materialized (
      select d.namespace from lease_declaration d
      where d.namespace in (select a.namespace from asked a)
      order by d.namespace
      for update of d
    )
    update lease_declaration d
    set permits_per_key = a.per_key, permits_total = a.total, permits_by = ${by.actor},
        permits_principal = ${by.principal}
    from asked a
    join locked k on k.namespace = a.namespace
    where d.namespace = a.namespace and ${FITS}
      and (d.permits_per_key is null or d.permits_principal = ${by.principal})
    returning d.namespace`;
  return sql.$queryRaw<PermitsRow[]>`
    select ${PERMITS} from lease_declaration d
    where d.namespace = any(${requests.map(({ namespace }) => namespace)}::text[])
      and d.permits_per_key is not null
    order by d.namespace`;
}

/**
 * Sets the numbers as an operator: declarations of services do not change them any more. Index: the primary keys.
 * @returns the numbers that are in force then; others than those that were asked for if there are slots, and
 * whether there is a total would change.
 */
export async function setPermits(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string },
  { request, ttlMs }: { readonly request: PermitsRequest; readonly ttlMs: number },
): Promise<PermitsRow | undefined> {
  const { namespace } = request;
  await sql.$queryRaw`
    with asked as materialized (${askedRows([request])})
    insert into lease_declaration as d (
      namespace, ttl_ms, declared_by, principal, permits_per_key, permits_total, permits_by
    )
    select a.namespace, ${ttlMs}::int, ${by.actor}, ${by.principal}, a.per_key, a.total, ${by.actor}
    from asked a
    on conflict (namespace) do update
    set permits_per_key = excluded.permits_per_key, permits_total = excluded.permits_total,
        permits_by = excluded.permits_by, permits_principal = null
    where d.permits_per_key is null
      or (d.permits_total is null) = (excluded.permits_total is null)
      or not ${isFound(fragment`
        select true from lease l
        where l.face = 'lease' and l.namespace = d.namespace and l.mode = 'permit'`)}
    returning d.namespace`;
  const [row] = await sql.$queryRaw<PermitsRow[]>`
    select ${PERMITS} from lease_declaration d
    where d.namespace = ${namespace} and d.permits_per_key is not null`;
  return row;
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
