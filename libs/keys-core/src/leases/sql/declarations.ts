import { withinLimits } from '../../lists/index.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';
import type { LeaseDeclaration } from '../lease-types.ts';

/** A lease that a service declares. */
export type DeclarationRequest = Pick<LeaseDeclaration, 'namespace' | 'ttlMs' | 'description'>;

/** A declaration as people see it; `declaredAt` is epoch milliseconds. */
type DeclarationRow = Omit<LeaseDeclaration, 'declaredAt' | 'permits'> & {
  readonly declaredAt: number;
  readonly perKey: number | null;
  readonly total: number | null;
  readonly permitsBy: string | null;
};

/**
 * Records declarations; the last declarer of a namespace is the one that is shown. Rows are written in
 * the order of namespaces, so that two callers that declare the same ones do not deadlock. A namespace must
 * be named once. Calls of one principal at the same time may each pass its quota. Index: the primary
 * key; the rows of a principal are counted in the whole table, which services write when they start.
 * @returns how many rows were written: none when the principal would have more than `ownMax`.
 */
export async function writeDeclarations(
  sql: Sql<'general'>,
  by: { readonly actor: string; readonly principal: string; readonly ownMax: number },
  declarations: readonly DeclarationRequest[],
): Promise<number> {
  const namespaces = declarations.map((one) => one.namespace);
  const rows = await sql.$queryRaw<unknown[]>`
    insert into lease_declaration as d (namespace, ttl_ms, description, declared_by, principal)
    select a.namespace, a.ttl_ms, a.description, ${by.actor}, ${by.principal}
    from unnest(
      ${namespaces}::text[],
      ${declarations.map((one) => one.ttlMs)}::int[],
      ${declarations.map((one) => one.description)}::text[]
    ) as a (namespace, ttl_ms, description)
    where (
      select count(*) from lease_declaration o
      where o.principal = ${by.principal} and o.namespace <> all(${namespaces}::text[])
    ) + ${declarations.length}::bigint <= ${by.ownMax}::bigint
    order by a.namespace ${C}
    on conflict (namespace) do update set
      ttl_ms = excluded.ttl_ms,
      description = excluded.description,
      declared_by = excluded.declared_by,
      principal = excluded.principal,
      declared_at = clock_timestamp()
    returning d.namespace`;
  return rows.length;
}

/**
 * A page of declarations in the order of namespaces. Index: the primary key, `lease_pkey` and
 * `lease_waiter_resource_idx`, once for each row of the page.
 */
export async function readDeclarations(
  sql: Sql<'reads'>,
  page: {
    readonly namespaces: readonly string[] | null;
    /** Only this one, without its children; all without it. */
    readonly namespace: string | null;
    readonly after: string | null;
    readonly limit: number;
  },
): Promise<DeclarationRow[]> {
  return sql.$queryRaw<DeclarationRow[]>`
    select d.namespace, d.ttl_ms as "ttlMs", d.description, d.declared_by as "declaredBy",
      extract(epoch from d.declared_at)::float8 * 1000 as "declaredAt",
      d.permits_per_key as "perKey", d.permits_total as total, d.permits_by as "permitsBy",
      (
        select count(*)::int from lease l
        where l.face = 'lease' and l.namespace = d.namespace
          and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
      ) as held,
      (
        select count(*)::int from lease_waiter w
        where w.face = 'lease' and w.namespace = d.namespace and w.valid_until > clock_timestamp()
      ) as waiting
    from (
      select d.* from lease_declaration d
      where (${page.after}::text is null or d.namespace > ${page.after} ${C})
        and (${page.namespace}::text is null or d.namespace = ${page.namespace} ${C})
        and ${withinLimits(page.namespaces, fragment`d.namespace`)}
      order by d.namespace
      limit ${page.limit}
    ) d
    order by d.namespace`;
}

/**
 * Drops declarations that nobody has repeated for so many days, and in whose namespace there is no
 * lease any more. One whose permits an operator has set stays. @returns how many.
 */
export function dropOldDeclarations(
  sql: Sql<'general'>,
  days: number,
  pass: RetentionPass,
): Promise<number> {
  return removeOld(sql, pass, 'declarations', {
    old: fragment`
      select d.namespace from lease_declaration d
      where d.declared_at < clock_timestamp() - ${days}::int * interval '1 day'
        and (d.permits_per_key is null or d.permits_principal is not null)
        and not exists (
          select from lease l where l.face = 'lease' and l.namespace = d.namespace
        )`,
    deletes: fragment`
      gone as (
        delete from lease_declaration d using old
        where d.namespace = old.namespace
        returning d.namespace
      )`,
  });
}
