/** The part of a statement that grants one key, for a statement that also writes what comes with it. */
import type { GrantRequest } from '../../../kernel/lease/outcomes.ts';
import type { GrantGuard } from '../../../postgres/clock/expiry.ts';
import { type Fragment, fragment } from '../../../postgres/sql.ts';
import { IS_ACTIVE_HOME, NOT_READ_BACK } from '../at-home.ts';
import { GRANT_EVENTS } from './grant-facts.ts';
import { freeCandidates, upsertGrants } from './upsert-grants.ts';
import { wantedRows } from './wanted-rows.ts';

const IS_RELEASED = fragment`(l.end_reason = 'released' and l.stops_by is null)`;

/**
 * Grants a key that nobody ever held, or whose last holder released it, as the rows `granted`, with its
 * event. `ended_at` of `candidate` is when it was released. No row: {@link grant} of `grant.ts` says more.
 *
 * - **Locks**: the key's row, and only if it takes it. It passes over a locked one.
 * - **Atomic because** {@link upsertGrants} judges after the row lock.
 * - **Index**: the primary keys.
 *
 * @param after the name of a query that the grant comes after: without a row there, nothing is granted.
 */
export function grantReleasedKey(
  request: GrantRequest,
  mark: GrantGuard['mark'],
  after: Fragment,
): Fragment {
  return fragment`
    wanted as materialized (
      select w.* from (${wantedRows([request], mark)}) w cross join ${after}
    ),
    ${freeCandidates(
      IS_RELEASED,
      fragment`(w.home_reservation is null or (${IS_ACTIVE_HOME} and not exists (${NOT_READ_BACK})))`,
    )},
    ${upsertGrants(IS_RELEASED)},
    ${GRANT_EVENTS}`;
}
