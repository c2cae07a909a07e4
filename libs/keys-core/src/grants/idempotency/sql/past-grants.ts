/** Grants as they were given, whatever has become of them. */
import { UNCONFIRMED_LADDER, type Ladder } from '../../../kernel/lease/ladder.ts';
import { assertSameRequest, type RecordedRequest } from '../../../kernel/lease/recorded-request.ts';
import type { Resource } from '../../../kernel/resource/resource.ts';
import type { KeyedRequest } from './requests.ts';
import { C, type Fragment, fragment, type Sql } from '../../../postgres/sql.ts';

export interface PastGrant extends Resource {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly principal: string;
  /** Its present ladder: a short one until it is confirmed. */
  readonly ladder: Ladder;
  /** 0 when it has ended. */
  readonly remainingMs: number;
  /** When it was read, as epoch milliseconds of the database. */
  readonly asOf: number;
}

type PastGrantRow = Omit<PastGrant, 'ladder'> & Ladder & { readonly isConfirmed: boolean };

/**
 * The grant with an id. A grant that no row carries any more is read from its event: it has ended and
 * has no deadline ahead. **Index**: `lease_event_lease_id_idx`, `lease_lease_id_key`.
 */
function grantWithId(leaseId: Fragment): Fragment {
  return fragment`
    select e.face, e.namespace, e.name, e.lease_id as "leaseId",
      e.fencing_token::text as "fencingToken",
      e.detail ->> 'holder' as holder, e.detail ->> 'principal' as principal,
      coalesce(l.ttl_ms, 1) as "ttlMs", coalesce(l.renew_after_ms, 0) as "renewAfterMs",
      coalesce(l.soft_after_ms, 0) as "softAfterMs", coalesce(l.hard_after_ms, 0) as "hardAfterMs",
      coalesce(lease_confirmed(l.renewed_at, l.expires_at), true) as "isConfirmed",
      case
        when l.end_reason is null and l.released_at is null
          then greatest(0, date_part('epoch', l.expires_at - clock_timestamp()) * 1000)
        else 0
      end as "remainingMs",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"
    from lease_event e
    left join lease l on l.lease_id = e.lease_id
    where e.lease_id = ${leaseId} and e.kind in ('granted', 'taken_over')
    order by e.id
    limit 1`;
}

/** The grant with this id, or undefined when none existed. */
export async function readGrant(
  sql: Sql<'general'>,
  leaseId: string,
): Promise<PastGrant | undefined> {
  const [row] = await sql.$queryRaw<PastGrantRow[]>`${grantWithId(fragment`${leaseId}::uuid`)}`;
  return row === undefined ? undefined : grantOf(row);
}

type PastRequestRow = Omit<RecordedRequest, 'leaseId'> & {
  readonly ticketId: string | null;
  /** Whether its record notes that its caller is told of the grant. */
  readonly isNoted: boolean;
} & (PastGrantRow | { readonly leaseId: null });

/** What became of a request, as of one moment. */
export interface PastRequest {
  readonly record: RecordedRequest;
  /** The grant that it led to; undefined while no grant exists. */
  readonly grant: PastGrant | undefined;
}

/**
 * What became of a request for a lease, or undefined when its key has not been used. The record and the
 * grant are of one snapshot: giving up the request ends both in one transaction.
 *
 * Notes that its caller is told of the grant, so that a controller that has lost the caller no longer
 * releases it. A request that was given up meanwhile is read again.
 * @throws {LeaseError} `request.idempotency_reused`.
 */
export async function readPastRequest(
  sql: Sql<'transitions'>,
  request: KeyedRequest,
): Promise<PastRequest | undefined> {
  const [row] = await sql.$queryRaw<PastRequestRow[]>`
    with past as materialized (
      select q.lease_id as "ticketId", q.answer, q.resource, q.fingerprint, g.*
      from lease_request q
      left join lateral (${grantWithId(fragment`q.lease_id`)}) g on true
      where q.principal = ${request.principal} ${C}
        and q.idempotency_key = ${request.idempotencyKey} ${C}
    ),
    noted as (
      update lease_request q
      set grant_repeated_at = coalesce(q.grant_repeated_at, clock_timestamp())
      where q.principal = ${request.principal} ${C}
        and q.idempotency_key = ${request.idempotencyKey} ${C}
        and q.answer is null
        and exists (select from past p where p."leaseId" is not null)
      returning q.principal
    )
    select p.*, exists (select from noted) as "isNoted" from past p`;
  if (row === undefined) return undefined;
  const { ticketId, answer, resource, fingerprint, isNoted, ...grant } = row;
  const record = { leaseId: ticketId, answer, resource, fingerprint };
  assertSameRequest(record, request);
  if (grant.leaseId === null) return { record, grant: undefined };
  if (answer === null && !isNoted) return readPastRequest(sql, request);
  return { record, grant: grantOf(grant) };
}

function grantOf(row: PastGrantRow): PastGrant {
  const { ttlMs, renewAfterMs, softAfterMs, hardAfterMs, isConfirmed, ...grant } = row;
  const ladder = { ttlMs, renewAfterMs, softAfterMs, hardAfterMs };
  return { ...grant, ladder: isConfirmed ? ladder : UNCONFIRMED_LADDER };
}
