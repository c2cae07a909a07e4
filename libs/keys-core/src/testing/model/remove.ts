import type { Face } from '../../kernel/resource.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';
import { expiredReason, IS_CONFIRMED } from '../../grants/sql/facts.ts';
import { expiryBelieved } from '../../postgres/clock/expiry.ts';

/**
 * Ends each of the grants that has expired and that nobody has ended: Plane's `remove_key`. The row
 * and its token stay, so that the next grant's token is greater. @returns the lease ids it ended.
 *
 * Locks first, judges then, in the order of every batch statement. Index: `lease_lease_id_key`.
 * A lease id that is not returned is in force, was ended before, or its expiry is not believed yet.
 */
export async function remove(
  sql: Sql<'general'>,
  face: Face,
  leaseIds: readonly string[],
  by: { readonly actor: string; readonly belief: ClockBelief },
): Promise<Set<string>> {
  const rows = await sql.$queryRaw<{ leaseId: string }[]>`
    with locked as materialized (
      select l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at
      from lease l
      where l.lease_id = any (${leaseIds}::uuid[]) and l.face = ${face}
      order by l.face, l.namespace, l.name
      for no key update of l
    ),
    removed as (
      update lease l
      set end_reason = 'removed'
      from locked k
      where l.lease_id = k.lease_id and k.end_reason is null
        and not lease_unexpired(k.released_at, k.end_reason, k.expires_at)
        and ${expiryBelieved(by.belief)}
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token, ${IS_CONFIRMED}
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select r.face, r.namespace, r.name, r.lease_id, r.fencing_token, x.kind, x.actor,
        case when x.kind = 'expired' then ${expiredReason(fragment`r.is_confirmed`)} end
      from removed r
      cross join (values (0, 'expired', 'leasehold'), (1, 'removed', ${by.actor})) as x (step, kind, actor)
      order by r.face, r.namespace, r.name, x.step
    ),
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select r.lease_id, r.face, r.namespace, r.name, r.fencing_token
      from removed r
      where r.face = 'lease' and r.is_confirmed
    )
    select r.lease_id as "leaseId" from removed r`;
  return new Set(rows.map((row) => row.leaseId));
}
