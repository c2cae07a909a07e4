import type { Grant } from '../../kernel/lease/outcomes.ts';
import { grantReleasedKey, grantedColumns, type GrantedRow, grantsOf } from '../../grants/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { fragment } from '../../postgres/sql.ts';
import { spawnRows, type SpawnPlan } from './spawn-rows.ts';

/**
 * Starts a backend for a key that nobody ever held, or whose last holder released it: by one statement
 * what `spawn` of `spawn.ts` does in a transaction of five round trips.
 *
 * - **Locks** the drone's row `for key share`, then the key's: see {@link grantReleasedKey}.
 * - **Atomic because** it is one statement, and each part writes only for the key that was granted.
 *
 * The store's witness must be ready. @returns undefined when nothing was granted: the transaction
 * then finds out why, or grants after all.
 */
export async function spawnPlain(store: Store, plan: SpawnPlan): Promise<Grant | undefined> {
  const { request } = plan;
  const sentAtMs = store.clock.nowMs();
  const rows = await store.transitions.$queryRaw<GrantedRow[]>`
    with target as materialized (
      select d.clock_id, d.local_time_ms, d.heartbeat_at
      from drone d
      where d.id = ${plan.droneId} and not d.draining and d.lost_at is null
        and d.stopped_session is distinct from d.session
        and d.local_time_ms is not null and d.heartbeat_at is not null
      for key share
    ),
    ${grantReleasedKey(request, store.witness.mark, fragment`target`)},
    granted_here as materialized (
      -- Stored instants are rounded to the millisecond: never later than now.
      select g.*, d.clock_id, d.local_time_ms + extract(epoch from
          least(g.expires_at - g.ttl_ms * interval '1 millisecond', clock_timestamp()) - d.heartbeat_at
        )::float8 * 1000 as local_ms
      from granted g
      cross join target d
    ),
    ${spawnRows(plan)}
    select ${grantedColumns(fragment`(select c.ended_at from candidate c)`)} from granted g`;
  const { grants, seen } = grantsOf(rows, [request]);
  const own = grants.get(request.leaseId);
  if (own === undefined) return undefined;
  store.clockWatch.observe(own.asOf, sentAtMs, store.clock.nowMs());
  store.witness.saw(seen);
  return own;
}
