/** What a renewal asks for, and how a statement that renews is answered. */
import type { Ladder } from '../../../kernel/lease/ladder.ts';
import { invariant } from '../../../kernel/errors/index.ts';
import type { GrantRef, RefusalReason, RenewOutcome } from '../../../kernel/lease/outcomes.ts';
import { type Fragment, fragment } from '../../../postgres/sql.ts';
import type { LogPlace } from '../../../postgres/witness/witness-stamp.ts';
import { LOG_PLACE } from '../../../postgres/clock/expiry.ts';

/** A renewal that one holder asks for. `principal` is the authenticated caller, never a claimed one. */
export interface RenewRequest extends GrantRef {
  readonly principal: string;
}

/** All renewals of a statement that share one answer: each row of an answer costs time in the driver. */
export interface JudgedGroup extends Ladder, LogPlace {
  /** Separated by commas. */
  leaseIds: string;
  refusal: RefusalReason | null;
  remainingMs: number;
}

export interface Renewed {
  /** By lease id. */
  readonly outcomes: Map<string, RenewOutcome>;
  /** How far the log had come; undefined when nothing was renewed. */
  readonly place: LogPlace | undefined;
}

/** The requests as rows: `lease_id`, `fencing_token` and `principal`. */
export function askedRenewals(requests: readonly RenewRequest[]): Fragment {
  const principals = new Map<string, number>();
  for (const { principal } of requests) {
    if (!principals.has(principal)) principals.set(principal, principals.size + 1);
  }
  return fragment`
      select
        a.lease_id, a.fencing_token,
        (${[...principals.keys()]}::text[])[a.principal_place] collate "C" as principal
      from unnest(
        ${leaseIdsOf(requests)}::uuid[],
        ${arrayText(requests.map((r) => r.fencingToken))}::bigint[],
        ${arrayText(requests.map((r) => principals.get(r.principal)))}::int[]
      ) as a (lease_id, fencing_token, principal_place)`;
}

/** For a parameter that is an array of ids. */
export function leaseIdsOf(requests: readonly RenewRequest[]): string {
  return arrayText(requests.map((r) => r.leaseId));
}

/** The columns of a {@link JudgedGroup}, from the statement's `renewed` as `r`, grouped by {@link LADDER}. */
export const RENEWED_COLUMNS = fragment`
      string_agg(r.lease_id::text, ',') as "leaseIds", null as refusal,
      date_part('epoch', min(r.expires_at) - clock_timestamp()) * 1000 as "remainingMs",
      r.ttl_ms as "ttlMs", r.renew_after_ms as "renewAfterMs",
      r.soft_after_ms as "softAfterMs", r.hard_after_ms as "hardAfterMs", ${LOG_PLACE}`;

export const LADDER = fragment`r.ttl_ms, r.renew_after_ms, r.soft_after_ms, r.hard_after_ms`;

/** The answer to each request that the statement has judged. */
export function renewedOf(groups: readonly JudgedGroup[]): Renewed {
  const outcomes = new Map<string, RenewOutcome>();
  let place: LogPlace | undefined;
  for (const group of groups) {
    const { leaseIds, refusal, remainingMs, run, position } = group;
    const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = group;
    const ladder = { renewAfterMs, softAfterMs, hardAfterMs, ttlMs };
    if (refusal === null) place = { run, position };
    for (const leaseId of leaseIds.split(',')) {
      outcomes.set(
        leaseId,
        refusal === null
          ? { leaseId, outcome: 'renewed', remainingMs, ladder }
          : { leaseId, outcome: 'refused', reason: refusal },
      );
    }
  }
  return { outcomes, place };
}

/**
 * Numbers and ids as one text in PostgreSQL's form of an array. The client library turns a list into
 * the same text, at several times the cost of the statement's other work on this side.
 */
function arrayText(values: readonly (string | number | undefined)[]): string {
  invariant(
    values.every((value) => typeof value !== 'string' || !value.includes(',')),
    'an id holds no comma',
  );
  return `{${values.join(',')}}`;
}
