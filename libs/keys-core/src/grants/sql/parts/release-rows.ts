/** What a release asks for, and what a statement that releases returns. */
import type { GrantRef, ReleaseOutcome } from '../../../kernel/lease/outcomes.ts';
import type { Resource } from '../../../kernel/resource/resource.ts';
import { type Fragment, fragment } from '../../../postgres/sql.ts';

/** A release that a holder asks for. */
export interface ReleaseRequest extends GrantRef {
  readonly principal: string;
  readonly actor: string;
  readonly result: 'ok' | 'failed';
  readonly detail: string | null;
}

/** The outcome of a release. */
export interface Released extends Resource {
  readonly leaseId: string;
  readonly outcome: ReleaseOutcome;
  /** What an environment was leased for. */
  readonly tag: string;
  /** How long it was held until now, in milliseconds. */
  readonly heldMs: number;
  /** The first ticket in the line for the released resource; null if nobody waits. */
  readonly nextTicketId: string | null;
}

/** The requests as rows. */
export function askedReleases(requests: readonly ReleaseRequest[]): Fragment {
  return fragment`
      select a.lease_id, a.fencing_token, a.principal collate "C" as principal, a.actor, a.result, a.detail
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.fencingToken)}::bigint[],
        ${requests.map((r) => r.principal)}::text[],
        ${requests.map((r) => r.actor)}::text[],
        ${requests.map((r) => r.result)}::text[],
        ${requests.map((r) => r.detail)}::text[]
      ) as a (lease_id, fencing_token, principal, actor, result, detail)`;
}

/** The columns of a {@link Released}, from rows of the grants with their `outcome`. */
export function releasedColumns(j: Fragment): Fragment {
  return fragment`
      ${j}.lease_id as "leaseId", ${j}.outcome, ${j}.face, ${j}.namespace, ${j}.name, ${j}.tag,
      extract(epoch from clock_timestamp() - ${j}.granted_at)::float8 * 1000 as "heldMs",
      case when ${j}.face = 'lease' and ${j}.outcome = 'released' then (
        select w.ticket_id from lease_waiter w
        where w.face = ${j}.face and w.namespace = ${j}.namespace and w.name = ${j}.name
          and w.valid_until > clock_timestamp()
        order by w.id
        limit 1
      ) end as "nextTicketId"`;
}
