/** What a statement that grants returns, and how it is read. */
import type { EndReason } from '../../../kernel/lease/lease.ts';
import type { Grant, GrantRequest } from '../../../kernel/lease/outcomes.ts';
import { LOG_PLACE } from '../../../postgres/clock/expiry.ts';
import { type Fragment, fragment } from '../../../postgres/sql.ts';
import { laterToken, type LogPlace, type Seen } from '../../../postgres/witness/witness-stamp.ts';
import { firstLadder } from './wanted-rows.ts';

export interface GrantedRow
  extends
    Pick<Grant, 'leaseId' | 'fencingToken' | 'grantedAt' | 'expiresAt' | 'asOf' | 'freeMs'>,
    LogPlace {
  previousLeaseId: string | null;
  previousFencingToken: string | null;
  previousEnd: EndReason | 'lapsed' | 'unconfirmed' | null;
}

export interface Granted {
  /** What was granted, by lease id. */
  readonly grants: ReadonlyMap<string, Grant>;
  /** What a witness has seen once this is committed: how far the log had come, the largest token. */
  readonly seen: Seen;
}

/** The columns of a {@link GrantedRow}, from the statement's `granted` as `g`. */
export function grantedColumns(previousEndedAt: Fragment): Fragment {
  return fragment`
      g.lease_id as "leaseId", g.fencing_token::text as "fencingToken",
      extract(epoch from g.granted_at)::float8 * 1000 as "grantedAt",
      extract(epoch from g.expires_at)::float8 * 1000 as "expiresAt",
      extract(epoch from clock_timestamp())::float8 * 1000 as "asOf",
      g.previous_lease_id as "previousLeaseId",
      g.previous_fencing_token::text as "previousFencingToken",
      g.previous_end as "previousEnd",
      extract(epoch from g.granted_at - ${previousEndedAt})::float8 * 1000 as "freeMs",
      ${LOG_PLACE}`;
}

/** The grants that these requests led to. */
export function grantsOf(rows: readonly GrantedRow[], requests: readonly GrantRequest[]): Granted {
  const requestOf = new Map(requests.map((request) => [request.leaseId, request]));
  const grants = new Map<string, Grant>();
  const seen: { place?: LogPlace; fencingToken?: string } = {};
  for (const row of rows) {
    const request = requestOf.get(row.leaseId);
    if (request !== undefined) grants.set(row.leaseId, grantOf(row, request));
    seen.place = { run: row.run, position: row.position };
    seen.fencingToken = laterToken(seen.fencingToken ?? '0', row.fencingToken);
  }
  return { grants, seen };
}

function grantOf(row: GrantedRow, request: GrantRequest): Grant {
  const { leaseId, fencingToken, grantedAt, expiresAt, asOf, freeMs } = row;
  const { previousLeaseId, previousFencingToken, previousEnd } = row;
  const isFirst = previousLeaseId === null || previousFencingToken === null || previousEnd === null;
  return {
    face: request.face,
    namespace: request.namespace,
    name: request.name,
    ...{ leaseId, fencingToken, grantedAt, expiresAt, asOf, freeMs },
    ladder: firstLadder(request),
    remainingMs: expiresAt - asOf,
    previous: isFirst
      ? null
      : {
          leaseId: previousLeaseId,
          fencingToken: previousFencingToken,
          end: previousEnd === 'lapsed' || previousEnd === 'unconfirmed' ? 'expired' : previousEnd,
        },
  };
}
