/** Grants as they were given, whatever has become of them. */
import { type Ladder, UNCONFIRMED_LADDER } from '../../kernel/ladder.ts';
import { assertSameRequest, type RecordedRequest } from '../../kernel/requests.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import { type Fragment, fragment, type Sql } from '../../postgres/sql.ts';
import { createCoalescer } from '../coalesce.ts';
import { type KeyedRequest, keyText, type RequestKey } from './requests.ts';

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

/** The grants with these ids, in their order; an id without one is left out. */
export async function readGrants(
  sql: Sql<'transitions'>,
  leaseIds: readonly string[],
): Promise<PastGrant[]> {
  const rows = await sql.$queryRaw<PastGrantRow[]>`
    select g.*
    from unnest(${leaseIds}::uuid[]) with ordinality as a (lease_id, place)
    cross join lateral (${grantWithId(fragment`a.lease_id`)}) g
    order by a.place`;
  return rows.map(grantOf);
}

type PastRequestRow = Pick<RecordedRequest, 'answer' | 'fingerprint'> & {
  /** Its place among the keys that were asked for, from 1. */
  readonly place: number;
  readonly recordedFace: Face | null;
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

const REQUESTS_PER_STATEMENT_MAX = 200;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/**
 * What became of a request for a lease, or undefined when its key has not been used; many are read
 * together. The record and the grant are of one snapshot: giving up the request ends both in one transaction.
 *
 * Notes that its caller is told of the grant, so that a controller that has lost the caller no longer
 * releases it. A request that was given up meanwhile is read again.
 * @throws {LeaseError} `request.idempotency_reused`.
 */
export function createPastRequestReader(
  sql: Sql<'transitions'>,
): (request: KeyedRequest) => Promise<PastRequest | undefined> {
  const reads = createCoalescer<RequestKey, PastRequestRow | undefined>({
    run: (keys) => readPastRequests(sql, keys),
    // One statement may read a key for several callers.
    keysOf: () => [],
    batchSizeMax: REQUESTS_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return async function read(request): Promise<PastRequest | undefined> {
    const row = await reads.submit(request);
    if (row === undefined) return undefined;
    const { ticketId, answer, recordedFace, fingerprint, isNoted } = row;
    const record = { leaseId: ticketId, answer, face: recordedFace, fingerprint };
    assertSameRequest(record, request);
    if (row.leaseId === null) return { record, grant: undefined };
    if (answer === null && !isNoted) return read(request);
    return { record, grant: grantOf(row) };
  };
}

/** In the order asked. Locks the records of those whose callers are told of grants, in the order of their keys. */
async function readPastRequests(sql: Sql<'transitions'>, keys: readonly RequestKey[]) {
  const rows = await sql.$queryRaw<PastRequestRow[]>`
    with asked as materialized (
      select lease_request_id(a.principal, a.idempotency_key) as id, min(a.place)::int as place
      from unnest(
        ${keys.map((key) => key.principal)}::text[], ${keys.map((key) => key.idempotencyKey)}::text[]
      ) with ordinality as a (principal, idempotency_key, place)
      group by 1
      order by 1
    ),
    past as materialized (
      select a.place, q.*, g.*
      from asked a
      cross join lateral (
        select q.id, q.face as "recordedFace", q.lease_id as "ticketId", q.answer, q.fingerprint,
          q.ctid as "rowAt"
        from lease_request q
        where q.id = a.id
        limit 1
      ) q
      left join lateral (${grantWithId(fragment`q."ticketId"`)}) g on true
    ),
    noted as (
      -- A row that has moved since the snapshot may not be found: then it is read again.
      update lease_request q
      set grant_repeated_at = coalesce(q.grant_repeated_at, clock_timestamp())
      from past p
      where q.ctid = p."rowAt" and q.answer is null and p.answer is null and p."leaseId" is not null
      returning q.id
    )
    select p.place, p."recordedFace", p."ticketId", p.answer, p.fingerprint,
      p.face, p.namespace, p.name, p."leaseId", p."fencingToken", p.holder, p.principal,
      p."ttlMs", p."renewAfterMs", p."softAfterMs", p."hardAfterMs", p."isConfirmed",
      p."remainingMs", p."asOf", n.id is not null as "isNoted"
    from past p
    left join noted n on n.id = p.id`;
  const found = new Map<string, PastRequestRow>();
  for (const row of rows) {
    const key = keys[row.place - 1];
    if (key !== undefined) found.set(keyText(key), row);
  }
  return keys.map((key) => found.get(keyText(key)));
}

function grantOf(row: PastGrantRow): PastGrant {
  const { ttlMs, renewAfterMs, softAfterMs, hardAfterMs, isConfirmed, ...grant } = row;
  const ladder = { ttlMs, renewAfterMs, softAfterMs, hardAfterMs };
  return { ...grant, ladder: isConfirmed ? ladder : UNCONFIRMED_LADDER };
}

/** How a grant that its resource no longer carries has ended, according to its events. */
export type PastEnd = 'superseded' | 'released' | 'expired' | 'revoked';

/**
 * Finds for each lease id whether a row still carries it (`current`), or how it ended; nothing if it
 * never existed. Grants of another face or principal count as never existing.
 *
 * A plain read of one snapshot, probe by probe. **Index**: `lease_lease_id_key`,
 * `lease_event_lease_id_idx`.
 */
export async function readEndedGrants(
  sql: Sql<'general' | 'guests' | 'renewals' | 'slowLane' | 'transitions' | 'vital'>,
  face: Face,
  requests: readonly { leaseId: string; principal: string }[],
): Promise<Map<string, PastEnd | 'current'>> {
  const rows = await sql.$queryRaw<{ leaseId: string; end: PastEnd | 'current' }[]>`
    with asked as materialized (
      select a.lease_id, a.principal collate "C" as principal
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.principal)}::text[]
      ) as a (lease_id, principal)
    )
    select a.lease_id as "leaseId",
      case
        when l.face is null then coalesce(e.end, 'superseded')
        else 'current'
      end as end
    from asked a
    left join lateral (
      select l.face, l.principal from lease l where l.lease_id = a.lease_id limit 1
    ) l on true
    left join lateral (
      select v.face, v.detail ->> 'principal' as principal
      from lease_event v
      where v.lease_id = a.lease_id and v.kind in ('granted', 'taken_over')
      limit 1
    ) g on true
    left join lateral (
      select case
        when v.kind in ('released', 'failed') then 'released'
        when v.kind in ('expired', 'removed') then 'expired'
        else 'revoked'
      end as end
      from lease_event v
      where v.lease_id = a.lease_id
        and (v.kind in ('released', 'failed', 'expired', 'removed')
          or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force'))
      order by v.id
      limit 1
    ) e on true
    where coalesce(l.face, g.face) = ${face} and coalesce(l.principal, g.principal) = a.principal`;
  return new Map(rows.map((row) => [row.leaseId, row.end]));
}
