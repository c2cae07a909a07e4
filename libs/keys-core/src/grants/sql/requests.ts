/** The records of idempotency keys, on every face: see `kernel/recorded-request.ts`. */
import {
  assertSameRequest,
  type IdempotentRequest,
  type RecordedRequest,
} from '../../kernel/recorded-request.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Store } from '../../postgres/open-store.ts';
import { rangesFrom, ROWS_PER_STATEMENT_MAX } from '../../postgres/retention-pass.ts';
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

// Records are removed by walking their table page by page: an index on their age would cost each grant more than the walk.

/** How often old records of idempotency keys are looked for. Milliseconds. */
export const OLD_REQUESTS_EVERY_MS = 60_000;
/** The table is walked through in an hour, so that a record is kept for 25 hours at most, at any rate of grants. */
const OLD_REQUEST_ROUNDS = 60;
/** 32 MB, with 250,000 records: a smaller table is walked through in every round. */
const OLD_REQUEST_PAGES_MIN = 4_096;
const OLD_REQUEST_PAGES_PER_STATEMENT = 512;

/**
 * Removes records of idempotency keys that are older than a day. Each round reads the next part of the table, beginning
 * at a random page. @param pagesMin the smallest part, in pages.
 */
export function createOldRequestRemover(
  { general, ids, clock }: Pick<Store, 'general' | 'ids' | 'clock'>,
  pagesMin = OLD_REQUEST_PAGES_MIN,
) {
  let nextPage: number | undefined;
  return {
    /** Calls `onMore` if it has not come to the end of the part before the next round was due. */
    async runOnce(signal?: AbortSignal, onMore?: () => void): Promise<void> {
      const endMs = clock.nowMs() + OLD_REQUESTS_EVERY_MS;
      const pages = await readRequestPages(general);
      nextPage ??= Math.floor(ids.random() * pages);
      if (nextPage >= pages) nextPage = 0;
      const pagesMax = Math.max(pagesMin, Math.ceil(pages / OLD_REQUEST_ROUNDS));
      for (const range of rangesFrom(nextPage, pages, pagesMax)) {
        for (let { fromPage } = range; fromPage < range.toPage; fromPage = nextPage) {
          const toPage = Math.min(fromPage + OLD_REQUEST_PAGES_PER_STATEMENT, range.toPage);
          let dropped: number;
          do {
            if (signal?.aborted === true) return;
            if (clock.nowMs() >= endMs) {
              onMore?.();
              return;
            }
            dropped = await dropOldRequests(general, {
              fromPage,
              toPage,
              limit: ROWS_PER_STATEMENT_MAX,
            });
          } while (dropped === ROWS_PER_STATEMENT_MAX);
          nextPage = toPage;
        }
      }
    },
  };
}

/** How many pages the table of records has. */
async function readRequestPages(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ pages: number }[]>`
    select (pg_relation_size('lease_request') / current_setting('block_size')::int)::int as pages`;
  return onlyRow(rows).pages;
}

/** Drops records older than a day, at most `limit`, in a range of the table's pages. @returns how many. */
async function dropOldRequests(
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
