/** Giving up requests by their idempotency keys, on the leases and environments faces. */
import { LIMITS } from '../../kernel/limits.ts';
import {
  assertSameRequest,
  givenUp,
  type IdempotentRequest,
  isOfFace,
  type RecordedRequest,
} from '../../kernel/requests.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import { readAgeBelief } from '../../postgres/clock/clock-jumps.ts';
import type { Store } from '../../postgres/open-store.ts';
import { rangesFrom, ROWS_PER_STATEMENT_MAX } from '../../postgres/retention-pass.ts';
import {
  C,
  type Fragment,
  fragment,
  isFace,
  isFound,
  NO_FRAGMENT,
  onlyRow,
  type Sql,
  type SqlPool,
} from '../../postgres/sql.ts';
import { IS_OF_TOTAL } from './line.ts';
import { release, type Released, type ReleaseRequest } from './release.ts';

/** Who gives up, and what is recorded of a grant that is released for it. */
export interface GivingUp extends RequestKey, Pick<ReleaseRequest, 'actor' | 'result' | 'detail'> {
  /** Gives up nothing when the request was repeated and its caller was told of the grant. */
  readonly onlyUnrepeated?: boolean;
}

export type CancelOutcome = 'cancelled' | 'released' | 'not_found';

/** What became of a request that was given up. */
export interface Ended {
  /**
   * `locked`: another transaction has locked its record, its ticket or its grant, and nothing was answered yet.
   * `reused`: the key was used on another face.
   */
  readonly outcome: CancelOutcome | 'locked' | 'reused';
  /** For `wakeWaiters`, once it is committed. */
  readonly released?: readonly Released[];
  /** The lines that it has left. */
  readonly lines?: readonly LeftLine[];
}

/** A line that was left, and whether all keys of its namespace have a limit together. */
type LeftLine = Resource & { readonly isOfTotal: boolean };

type OnLocked = 'skip' | 'wait';
type LockedRequest = RecordedRequest & {
  readonly leaseCount: number;
  readonly isRepeated: boolean;
  readonly rowAt: string;
};
/** A lease that a request asks for, by the id of its ticket and its grant. */
type Open = GivingUp & { readonly leaseId: string; readonly rowAt: string };

const NOT_FOUND: Ended = { outcome: 'not_found' };
const LOCKED: Ended = { outcome: 'locked' };

/**
 * Gives up the requests with these keys: takes their tickets away, or releases the grants that they became.
 * Whatever the outcome, the key is never answered with a grant again. This also holds for a key that
 * was never used: its request may arrive later. No key may occur twice.
 *
 * - **Locks** the requests in the order of their keys, then their tickets, then their grants' rows. A grant
 *   under way has locked its ticket: what comes after that lock sees the grant. A batch skips what is
 *   locked, so that no request waits for another one's holder.
 * - **One transaction** for the ticket, the record and the grant of a request. A key that is new is
 *   barred before, by a statement of its own, so that its row delays no grant.
 *
 * @returns what became of each, in order.
 */
export async function cancelRequests(
  sql: SqlPool<'general'>,
  face: Face,
  requests: readonly GivingUp[],
  onLocked: OnLocked,
): Promise<Ended[]> {
  const barred = await barNew(sql, face, requests);
  const used = requests.filter((request) => !barred.has(keyText(request)));
  if (used.length === 0) return requests.map(() => NOT_FOUND);
  const ends = await sql.$transaction((tx) => cancelUsed(tx, face, used, onLocked));
  return requests.map((request) => ends.get(keyText(request)) ?? NOT_FOUND);
}

/** The keys as rows, each with the `id` of its record. */
function askedKeys(keys: readonly RequestKey[]): Fragment {
  return fragment`
      select lease_request_id(a.principal, a.idempotency_key) as id, a.principal, a.idempotency_key
      from unnest(
        ${keys.map((key) => key.principal)}::text[], ${keys.map((key) => key.idempotencyKey)}::text[]
      ) as a (principal, idempotency_key)`;
}

/** Records keys that are new as given up. @returns those, as texts. */
async function barNew(
  sql: Sql<'general'>,
  face: Face,
  keys: readonly RequestKey[],
): Promise<Set<string>> {
  const rows = await sql.$queryRaw<RequestKey[]>`
    with asked as materialized (${askedKeys(keys)}),
    barred as (
      insert into lease_request (id, answer)
      select a.id, ${JSON.stringify(givenUp(face))}::jsonb
      from asked a
      order by a.id
      on conflict (id) do nothing
      returning id
    )
    select a.principal, a.idempotency_key as "idempotencyKey" from barred b join asked a on a.id = b.id`;
  return new Set(rows.map(keyText));
}

async function cancelUsed(
  tx: Sql<'general'>,
  face: Face,
  requests: readonly GivingUp[],
  onLocked: OnLocked,
): Promise<Map<string, Ended>> {
  const ends = new Map<string, Ended>();
  const records = await lockRequests(tx, requests, onLocked);
  let open: Open[] = [];
  for (const request of requests) {
    const key = keyText(request);
    const record = records.get(key);
    const end = endOf(record, request, face);
    if (end !== undefined) ends.set(key, end);
    else if (record !== undefined) open.push(...leasesOf(request, record));
  }
  const passOverLocked = (isOurs: (leaseId: string) => boolean): void => {
    for (const request of open) {
      if (!isOurs(request.leaseId)) ends.set(keyText(request), LOCKED);
    }
    open = open.filter((request) => !ends.has(keyText(request)));
  };
  const tickets = await takeTickets(tx, open, onLocked);
  passOverLocked((leaseId) => tickets.get(leaseId)?.isTaken !== false);
  // After the tickets, so that a grant that was under way is seen.
  const grants = await lockGrants(tx, face, open, onLocked);
  passOverLocked((leaseId) => grants.get(leaseId)?.isOurs !== false);
  const wereOpen = await barRequests(tx, face, open);
  const releases = open.flatMap((request) => {
    const fencingToken = grants.get(request.leaseId)?.fencingToken;
    return fencingToken === undefined ? [] : [{ ...request, fencingToken }];
  });
  const released = releases.length === 0 ? undefined : await release(tx, face, releases, 'wait');
  for (const request of open) {
    const { leaseId } = request;
    const key = keyText(request);
    const line = tickets.get(leaseId);
    const end = released?.get(leaseId);
    const before = ends.get(key) ?? NOT_FOUND;
    ends.set(
      key,
      withLease(before, {
        isCancelled: wereOpen.has(leaseId) || line !== undefined,
        released: end?.outcome === 'released' ? end : undefined,
        line,
      }),
    );
  }
  return ends;
}

/** The leases that a request asks for. */
function leasesOf(
  request: GivingUp,
  { leaseId, leaseCount, rowAt }: Pick<LockedRequest, 'leaseId' | 'leaseCount' | 'rowAt'>,
): Open[] {
  if (leaseId === null) return [];
  return leaseIdsFrom(leaseId, leaseCount).map((id) => ({ ...request, leaseId: id, rowAt }));
}

/** What became of a request, with what became of one more of its leases. */
function withLease(
  { outcome, released = [], lines = [] }: Ended,
  one: {
    readonly isCancelled: boolean;
    readonly released: Released | undefined;
    readonly line: LeftLine | undefined;
  },
): Ended {
  return {
    outcome:
      one.released !== undefined || outcome === 'released'
        ? 'released'
        : one.isCancelled
          ? 'cancelled'
          : outcome,
    released: one.released === undefined ? released : [...released, one.released],
    lines: one.line === undefined ? lines : [...lines, one.line],
  };
}

/** Undefined: it has a ticket or a grant, which may have ended. */
function endOf(
  record: LockedRequest | undefined,
  request: GivingUp,
  face: Face,
): Ended | undefined {
  if (record === undefined) return LOCKED;
  if (!isOfFace(record, face)) return { outcome: 'reused' };
  if (record.leaseId === null) return NOT_FOUND;
  return request.onlyUnrepeated === true && record.isRepeated ? NOT_FOUND : undefined;
}

async function lockRequests(
  tx: Sql<'general'>,
  keys: readonly RequestKey[],
  onLocked: OnLocked,
): Promise<Map<string, LockedRequest>> {
  const rows = await tx.$queryRaw<(LockedRequest & RequestKey)[]>`
    select a.principal, a.idempotency_key as "idempotencyKey", k.*
    from (select a.* from (${askedKeys(keys)}) a order by a.id) a
    cross join lateral (
      select q.lease_id as "leaseId", coalesce(q.lease_count, 1) as "leaseCount", q.answer, q.face,
        q.fingerprint, q.grant_repeated_at is not null as "isRepeated", q.ctid::text as "rowAt"
      from lease_request q
      where q.id = a.id
      for update of q ${onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT}
    ) k`;
  return new Map(rows.map((row) => [keyText(row), row]));
}

/**
 * Takes tickets away: all of those that a request has, or none. @returns those that are there, with their lines; they are
 * not taken if one of the same request is locked.
 */
async function takeTickets(
  tx: Sql<'general'>,
  requests: readonly Open[],
  onLocked: OnLocked,
): Promise<Map<string, LeftLine & { readonly isTaken: boolean }>> {
  if (requests.length === 0) return new Map();
  const rows = await tx.$queryRaw<(LeftLine & { ticketId: string; isTaken: boolean })[]>`
    with asked as materialized (
      select a.ticket_id, a.request_at
      from unnest(
        ${requests.map(({ leaseId }) => leaseId)}::uuid[], ${requests.map(({ rowAt }) => rowAt)}::text[]
      ) as a (ticket_id, request_at)
    ),
    locked as materialized (
      select k.* from (select a.ticket_id from asked a order by a.ticket_id) a
      cross join lateral (
        select w.ticket_id from lease_waiter w
        where w.ticket_id = a.ticket_id
        for update of w ${onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT}
      ) k
    ),
    there as materialized (
      select a.ticket_id, a.request_at, w.face, w.namespace, w.name, k.ticket_id is not null as is_locked,
        ${IS_OF_TOTAL} as is_of_total
      from asked a
      cross join lateral (
        select w.* from lease_waiter w where w.ticket_id = a.ticket_id limit 1
      ) w
      left join locked k on k.ticket_id = a.ticket_id
    ),
    taken as (
      delete from lease_waiter w
      where w.ticket_id = any(array(
        select unnest(array_agg(t.ticket_id)) from there t group by t.request_at having bool_and(t.is_locked)
      ))
      returning w.ticket_id
    )
    select t.ticket_id as "ticketId", t.face, t.namespace, t.name, d.ticket_id is not null as "isTaken",
      t.is_of_total as "isOfTotal"
    from there t
    left join taken d on d.ticket_id = t.ticket_id`;
  return new Map(rows.map(({ ticketId, ...row }) => [ticketId, row]));
}

/** Locks the rows that carry these grants. One that is never granted, or has been followed, is on no row. */
async function lockGrants(
  tx: Sql<'general'>,
  face: Face,
  requests: readonly Open[],
  onLocked: OnLocked,
): Promise<Map<string, { readonly fencingToken: string; readonly isOurs: boolean }>> {
  if (requests.length === 0) return new Map();
  const rows = await tx.$queryRaw<{ leaseId: string; fencingToken: string; isOurs: boolean }[]>`
    with asked as materialized (
      select a.lease_id, a.principal ${C} as principal
      from unnest(
        ${requests.map(({ leaseId }) => leaseId)}::uuid[],
        ${requests.map(({ principal }) => principal)}::text[]
      ) as a (lease_id, principal)
    ),
    found as materialized (
      select k.* from asked a
      cross join lateral (
        select l.face, l.namespace, l.name, l.lease_id, l.principal, l.fencing_token from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face ${isFace(face)}
        limit 1
      ) k
    ),
    locked as materialized (
      select k.* from (select f.* from found f order by f.face, f.namespace, f.name) f
      cross join lateral (
        select l.lease_id from lease l
        where l.lease_id = f.lease_id and l.principal = f.principal
        for no key update of l ${onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT}
      ) k
    )
    select f.lease_id as "leaseId", f.fencing_token::text as "fencingToken",
      k.lease_id is not null as "isOurs"
    from found f
    left join locked k on k.lease_id = f.lease_id`;
  return new Map(rows.map(({ leaseId, ...row }) => [leaseId, row]));
}

/**
 * From now on, answers requests that were granted or wait as given up; a refusal stays the answer. Their
 * rows are locked: none has moved.
 * @returns the lease ids of those that had neither a grant nor an answer.
 */
async function barRequests(
  tx: Sql<'general'>,
  face: Face,
  requests: readonly Open[],
): Promise<Set<string>> {
  if (requests.length === 0) return new Set();
  const rows = await tx.$queryRaw<{ leaseId: string; wasOpen: boolean }[]>`
    update lease_request q set answer = ${JSON.stringify(givenUp(face))}::jsonb
    where q.ctid = any(${requests.map(({ rowAt }) => rowAt)}::text[]::tid[]) and q.answer is null
    returning q.lease_id as "leaseId", not ${isFound(fragment`
      select true from lease_event e
      where e.lease_id = q.lease_id and e.kind in ('granted', 'taken_over')`)} as "wasOpen"`;
  return new Set(rows.filter(({ wasOpen }) => wasOpen).map(({ leaseId }) => leaseId));
}

/** The records of idempotency keys, on every face: see `kernel/requests.ts`. */

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
 * Removes records of idempotency keys that are older than a day, unless the clock has stepped. Each round reads the next
 * part of the table, beginning at a random page. @param pagesMin the smallest part, in pages.
 */
export function createOldRequestRemover(
  store: Pick<Store, 'general' | 'ids' | 'clock' | 'clockWatch'>,
  pagesMin = OLD_REQUEST_PAGES_MIN,
) {
  const { general, ids, clock } = store;
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
            if ((await readAgeBelief(store)) !== 'believed') return;
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
