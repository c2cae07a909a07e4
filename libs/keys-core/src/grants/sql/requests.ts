/** The records of idempotency keys, on every face: see `kernel/recorded-request.ts`. */
import {
  assertSameRequest,
  type IdempotentRequest,
  type RecordedRequest,
} from '../../kernel/recorded-request.ts';
import { LIMITS } from '../../kernel/limits.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';

/** The sender and the key, by which a record is found. */
export interface RequestKey {
  readonly principal: string;
  readonly idempotencyKey: string;
}

/** A request that was sent with an idempotency key. */
export type KeyedRequest = RequestKey & IdempotentRequest;

/**
 * The record of a request, or undefined when its key has not been used.
 * @throws {LeaseError} `request.idempotency_reused`.
 */
export async function readRequest(
  sql: Sql<'general'>,
  request: KeyedRequest,
): Promise<RecordedRequest | undefined> {
  const [record] = await sql.$queryRaw<RecordedRequest[]>`
    select lease_id as "leaseId", answer, face, fingerprint from lease_request
    where id = lease_request_id(${request.principal}, ${request.idempotencyKey})`;
  if (record !== undefined) assertSameRequest(record, request);
  return record;
}

/** An answer without a grant. */
export interface RequestAnswer {
  readonly request: KeyedRequest;
  readonly answer: object;
}

/**
 * Records answers, each under its key; the first record of a key stays. No key may occur twice.
 * @returns for each, in order, whether it was recorded now.
 */
export async function recordAnswers(
  sql: Sql<'general' | 'transitions'>,
  answers: readonly RequestAnswer[],
): Promise<boolean[]> {
  const requests = answers.map(({ request }) => request);
  const rows = await sql.$queryRaw<{ place: number }[]>`
    with asked as materialized (
      select lease_request_id(r.principal, r.idempotency_key) as id, r.answer, r.face, r.fingerprint, r.place
      from unnest(
        ${requests.map((request) => request.principal)}::text[],
        ${requests.map((request) => request.idempotencyKey)}::text[],
        ${answers.map(({ answer }) => JSON.stringify(answer))}::text[],
        ${requests.map((request) => request.face)}::text[],
        ${requests.map((request) => request.fingerprint)}::text[]
      ) with ordinality as r (principal, idempotency_key, answer, face, fingerprint, place)
    ),
    recorded as (
      insert into lease_request (id, answer, face, fingerprint)
      select a.id, a.answer::jsonb, a.face, a.fingerprint from asked a
      order by a.id
      on conflict (id) do nothing
      returning id
    )
    select a.place::int as place from recorded r join asked a on a.id = r.id`;
  const recorded = new Set(rows.map(({ place }) => place));
  return requests.map((_, index) => recorded.has(index + 1));
}

/** A different text for each key: a principal contains no NUL. */
export function keyText({ principal, idempotencyKey }: RequestKey): string {
  return `${principal}\0${idempotencyKey}`;
}

/** How many pages the table of records has. */
export async function readRequestPages(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ pages: number }[]>`
    select (pg_relation_size('lease_request') / current_setting('block_size')::int)::int as pages`;
  return onlyRow(rows).pages;
}

/** Drops records older than a day, at most `limit`, in a range of the table's pages. @returns how many. */
export async function dropOldRequests(
  sql: Sql<'general'>,
  { fromPage, toPage, limit }: { fromPage: number; toPage: number; limit: number },
): Promise<number> {
  const rows = await sql.$queryRaw<{ dropped: number }[]>`
    with gone as (
      delete from lease_request r
      where r.ctid = any(array(
        select q.ctid from lease_request q
        where q.ctid >= ${`(${String(fromPage)},0)`}::tid and q.ctid < ${`(${String(toPage)},0)`}::tid
          and q.created_at < (select clock_timestamp()) - interval '24 hours'
        limit ${limit}
        for update skip locked
      ))
      returning r.id
    )
    select count(*)::int as dropped from gone`;
  return onlyRow(rows).dropped;
}

/**
 * The lease ids of a request for several leases: the id of the first, and those that follow. So the record of an
 * idempotency key, which has the first, has all of them. @param first from {@link firstLeaseId}.
 */
export function leaseIdsFrom(first: string, count: number): string[] {
  return Array.from({ length: count }, (_, place) => idAt(first, place));
}

/** The id that has as many free ones after it as a request may ask for. */
export function firstLeaseId(id: string): string {
  const last = Number.parseInt(id.slice(-2), 16);
  return idAt(id, -(last % LIMITS.leasesTogetherMax));
}

function idAt(id: string, offset: number): string {
  const last = Number.parseInt(id.slice(-2), 16) + offset;
  return `${id.slice(0, -2)}${last.toString(16).padStart(2, '0')}`;
}
