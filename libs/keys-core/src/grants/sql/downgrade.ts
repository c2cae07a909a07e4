import type { UpdateOutcome } from '../../kernel/lease.ts';
import { NEVER } from '../../postgres/clock/expiry.ts';
import { C, fragment, NO_FRAGMENT, SCOPE_NAME, type Sql } from '../../postgres/sql.ts';
import { EXPIRE_LOCKED } from './facts.ts';
import type { RenewRequest } from './renew.ts';

/** A holder that shares what it has held alone. */
export interface DowngradeRequest extends RenewRequest {
  readonly actor: string;
}

/**
 * Makes an exclusive grant that is in force a shared one, if its holder asks with its token, and writes an
 * event with it. It stays the same grant, with its token, and is not renewed.
 *
 * - **Locks first, judges then**.
 * - **A lease that is held in the ordinary way** becomes the first slot of a pool: its row gets the name of
 *   the slot, and the scope an own row in its place. Both in one statement: nobody finds the scope free.
 * - **No other grant is made meanwhile** that its change could make wrong: a statement that has not seen it
 *   finds the lease held alone, and grants nothing.
 * - **A grant that is shared already** stays so. A permit cannot be shared, nor a lease that has permits: `permit`.
 * - **Index**: `lease_lease_id_key`.
 *
 * @returns undefined when the row was locked and `onLocked` is `skip`, or no row has its lease id and principal.
 */
export async function downgrade(
  sql: Sql<'slowLane' | 'transitions'>,
  request: DowngradeRequest,
  onLocked: 'skip' | 'wait',
): Promise<Downgraded | undefined> {
  const skip = onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const rows = await sql.$queryRaw<DowngradedRow[]>`
    with locked as materialized (
      select l.lease_id, l.namespace, ${SCOPE_NAME}, l.fencing_token, l.released_at, l.end_reason,
        l.expires_at, l.pool, l.mode
      from lease l
      where l.lease_id = ${request.leaseId}::uuid and l.principal = ${request.principal} ${C}
        and l.face is not distinct from 'lease'
      for update of l ${skip}
    ),
    judged as materialized (
      select k.*,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when k.fencing_token <> ${request.fencingToken}::bigint then 'superseded'
          when k.mode = 'permit' then 'permit'
          when k.pool is null and exists (
            select from lease_declaration d
            where d.namespace = k.namespace and d.permits_per_key is not null
          ) then 'permit'
        end as refusal
      from locked k
    ),
    shared as (
      update lease l
      set mode = 'shared', pool = coalesce(l.pool, l.name),
          name = case when l.pool is null then l.name || chr(31) || '1' else l.name end
      from judged j
      where l.lease_id = j.lease_id and j.refusal is null and j.mode is distinct from 'shared'
      returning l.face, l.namespace, l.pool as scope, l.lease_id, l.fencing_token, l.holder,
        j.pool is null as is_first
    ),
    opened as (
      insert into lease (
        face, namespace, name, lease_id, fencing_token, holder, principal,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms,
        granted_at, renewed_at, expires_at, released_at, end_reason, stops_by, pool, mode
      )
      select s.face, s.namespace, s.scope, gen_random_uuid(), s.fencing_token, '', '', 4, 1, 2, 3,
        n.at, n.at, n.at, n.at, 'removed', ${NEVER}, s.scope, 'shared'
      from shared s
      cross join (select clock_timestamp() as at) n
      where s.is_first
    ),
    noted as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select s.face, s.namespace, s.scope, s.lease_id, s.fencing_token, 'updated', ${request.actor},
        jsonb_build_object('holder', s.holder, 'mode', 'shared')
      from shared s
    ),
    ${EXPIRE_LOCKED}
    select j.namespace, j.name, j.refusal from judged j`;
  const [row] = rows;
  if (row === undefined) return undefined;
  const { refusal, namespace, name } = row;
  if (refusal === null) return { outcome: 'updated', namespace, name };
  return refusal === 'permit' ? { outcome: 'permit' } : { outcome: 'refused', reason: refusal };
}

type Refused = Extract<UpdateOutcome, { outcome: 'refused' }>;

type Downgraded =
  | { readonly outcome: 'updated'; readonly namespace: string; readonly name: string }
  | { readonly outcome: 'permit' }
  | Refused;

interface DowngradedRow {
  readonly namespace: string;
  readonly name: string;
  readonly refusal: Refused['reason'] | 'permit' | null;
}
