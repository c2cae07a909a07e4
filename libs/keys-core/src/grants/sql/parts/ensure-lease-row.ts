import type { Resource } from '../../../kernel/resource/resource.ts';
import { C, type Sql, TOKEN_FLOOR } from '../../../postgres/sql.ts';

/**
 * Makes sure that a resource has a row, of a grant that is over.
 *
 * For use before a grant in a transaction that stays open because callers' code runs in it: other
 * callers skip an existing row that is locked there, but cannot skip one that is just being inserted,
 * so that whole batches of theirs would wait for it. Zero rows: it had one. **Index**: the primary key.
 */
export async function ensureLeaseRow(
  sql: Sql<'general' | 'transitions'>,
  resource: Resource,
): Promise<void> {
  await sql.$queryRaw`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal,
      ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms,
      granted_at, renewed_at, expires_at, released_at, end_reason
    )
    select
      r.face, r.namespace, r.name, gen_random_uuid(), lease_next_token(${TOKEN_FLOOR}), '', '', 4, 1, 2, 3,
      r.at, r.at, r.at, r.at, 'removed'
    from (
      select ${resource.face}::text ${C} as face, ${resource.namespace}::text ${C} as namespace,
        ${resource.name}::text ${C} as name, clock_timestamp() as at
    ) r
    where not exists (
      select from lease l where l.face = r.face and l.namespace = r.namespace and l.name = r.name
    )
    on conflict do nothing
    returning 1 as placed`;
}
