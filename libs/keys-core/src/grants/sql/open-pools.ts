/** The own rows of pools: made where nobody holds the scope. What they are for is in `pools.ts`. */
import { type PoolKind, poolKindOf } from '../../kernel/lease.ts';
import type { Named } from '../../kernel/resource.ts';
import { type GrantGuard, isTakable, NEVER } from '../../postgres/clock/expiry.ts';
import {
  arrayText,
  C,
  fragment,
  isFound,
  NO_FRAGMENT,
  type Sql,
  textArray,
  TOKEN_FLOOR,
} from '../../postgres/sql.ts';
import { EXPIRED_FACTS, PREVIOUS_END } from './facts.ts';
import type { MetPool, SlotRequest } from './pools.ts';

/** The name of the own row of a namespace where all keys have a limit together. */
const OF_NAMESPACE = '\u001F';

/** A pool whose own row is wanted. */
export interface AskedPool extends Named {
  readonly kind: PoolKind;
  /** Whether all keys of the namespace have a limit together: this decides where the slots are. */
  readonly hasTotal: boolean;
}

interface OpenOptions {
  readonly guard: Pick<GrantGuard, 'belief'>;
  /** What is done about declarations that another transaction changes. */
  readonly onLocked: 'skip' | 'wait';
}

/**
 * Makes the own rows of pools, where nobody holds the scope; of a scope that somebody holds it does nothing.
 *
 * - **Locks** only rows that look free and that nobody has locked, and judges once they are locked.
 * - **With permits** only as the declaration is by then, which it locks: a total that comes or goes looks for
 *   the rows that this makes, see `declarePermits`. While another transaction changes it, this waits; or nothing is made,
 *   and the next try does, where a statement is for requests of several callers.
 * - **A grant that has run out** and that nobody has ended is ended here, with its one event.
 * - **Index**: the primary keys.
 */
export async function openPools(
  sql: Sql<'transitions' | 'guests'>,
  pools: readonly AskedPool[],
  { guard: { belief }, onLocked }: OpenOptions,
): Promise<void> {
  await sql.$queryRaw`
    with asked as materialized (
      select distinct a.namespace ${C} as namespace, a.name ${C} as name, a.kind, a.has_total
      from unnest(
        ${textArray(pools.map(({ namespace }) => namespace))}::text[],
        ${textArray(pools.map(({ name }) => name))}::text[],
        ${textArray(pools.map(({ kind }) => kind))}::text[],
        ${arrayText(pools.map(({ hasTotal }) => String(hasTotal)))}::boolean[]
      ) as a (namespace, name, kind, has_total)
    ),
    declared as materialized (
      select d.namespace, d.permits_total is not null as has_total
      from lease_declaration d
      where d.permits_per_key is not null
        and d.namespace in (select a.namespace from asked a where a.kind = 'permit')
      order by d.namespace
      for share of d ${onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT}
    ),
    openable as materialized (
      select a.* from asked a
      where not ${isFound(fragment`
        select true from lease l
        where l.face = 'lease' and l.namespace = a.namespace and l.name = a.name`)}
      union all
      select a.*
      from (select a.* from asked a order by a.namespace, a.name) a
      cross join lateral (
        select from lease l
        where l.face = 'lease' and l.namespace = a.namespace and l.name = a.name
          and l.pool is null and ${isTakable(belief)}
        for update of l skip locked
      ) k
    ),
    opened as (
      insert into lease as l (
        face, namespace, name, lease_id, fencing_token, holder, principal,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms,
        granted_at, renewed_at, expires_at, released_at, end_reason, stops_by, pool, mode
      )
      select 'lease', a.namespace, a.name, gen_random_uuid(), lease_next_token(${TOKEN_FLOOR}), '', '',
        4, 1, 2, 3, n.at, n.at, n.at, n.at, 'removed', ${NEVER}, a.name, a.kind
      from openable a
      cross join (select clock_timestamp() as at) n
      where (a.kind = 'shared' or exists (
        select from declared d where d.namespace = a.namespace and d.has_total = a.has_total
      ))
      order by a.namespace, a.name
      on conflict (face, namespace, name) do update set
        lease_id = excluded.lease_id,
        previous_lease_id = l.lease_id,
        previous_fencing_token = l.fencing_token,
        previous_end = ${PREVIOUS_END},
        fencing_token = lease_next_token(greatest(l.fencing_token, ${TOKEN_FLOOR})),
        holder = '',
        principal = '',
        comment = null,
        metadata = null,
        ttl_ms = excluded.ttl_ms,
        renew_after_ms = excluded.renew_after_ms,
        soft_after_ms = excluded.soft_after_ms,
        hard_after_ms = excluded.hard_after_ms,
        released_at = excluded.released_at,
        end_reason = 'removed',
        stops_by = ${NEVER},
        pool = excluded.pool,
        mode = excluded.mode
      where l.pool is null and ${isTakable(belief)}
      returning l.face, l.namespace, l.name, l.previous_lease_id, l.previous_fencing_token,
        l.previous_end
    ),
    expired as (
      select o.face, o.namespace, o.name, o.previous_lease_id as lease_id,
        o.previous_fencing_token as fencing_token, o.previous_end = 'lapsed' as is_confirmed
      from opened o
      where o.previous_end in ('lapsed', 'unconfirmed')
    ),
    ${EXPIRED_FACTS}
    select o.name from opened o`;
}

/** The pools whose own rows a request needs. */
export function poolsOf(
  { namespace, name, mode }: SlotRequest,
  { total }: Pick<MetPool, 'total'>,
): AskedPool[] {
  const kind = poolKindOf(mode);
  const hasTotal = kind === 'permit' && total !== null;
  const own = { namespace, name, kind, hasTotal };
  return hasTotal ? [own, { ...own, name: OF_NAMESPACE }] : [own];
}
