/**
 * The kernel's transitions as one caller uses them: each goes through its coalescer into a batch
 * statement and comes back with its own answer. Faces are built on this and on nothing below it.
 */
import { LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { LeaseRow } from '../kernel/lease.ts';
import type {
  Grant,
  GrantOutcome,
  GrantRequest,
  RefusalReason,
  ReleaseOutcome,
  RenewOutcome,
} from '../kernel/outcomes.ts';
import { resourceKey, type Face } from '../kernel/resource.ts';
import { createCoalescer } from './coalesce.ts';
import { databaseFailureOf } from './database-errors.ts';
import type { StatementKind } from './observer.ts';
import type { Store } from './open-store.ts';
import { readLeases, type Sql } from './rows.ts';
import { readEndedGrants, type PastEnd } from './statements/ended-grants.ts';
import { grant, type GrantOptions } from './statements/grant.ts';
import { release, type ReleaseRequest } from './statements/release.ts';
import { renew, type RenewRequest } from './statements/renew.ts';

/** How often a grant looks again when its row was locked, or was free by the time it was read. */
const GRANT_TRIES_MAX = 3;
const SLOW_LANE_LOCK_TIMEOUT_MS = 100;
/** A renewal that met a locked row looks again this often, this long apart. */
const SKIPPED_RENEWAL_TRIES = 3;
const SKIPPED_RENEWAL_PAUSE_MS = 20;
const GRANTS_PER_STATEMENT_MAX = 200;
const RENEWALS_PER_STATEMENT_MAX = 1_000;
const RELEASES_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/** Undefined: the row was locked at every try. */
type RenewAnswer = RenewOutcome | undefined;

export interface LeaseStore {
  /**
   * Grants the resource, or says who holds it.
   * @throws {LeaseError} `grant.hold_off`, `grant.contended`, `request.outcome_unknown`.
   */
  grant(request: GrantRequest, signal?: AbortSignal): Promise<GrantOutcome>;
  /** @throws {LeaseError} `grant.contended` when the row is kept locked: try again. */
  renew(face: Face, request: RenewRequest): Promise<RenewOutcome>;
  /**
   * Renews many that came in one call, in as few statements; answers in their order. One whose row
   * is kept locked has no answer, and keeps none of the others waiting.
   */
  renewAll(face: Face, requests: readonly RenewRequest[]): Promise<RenewAnswer[]>;
  release(face: Face, request: ReleaseRequest): Promise<ReleaseOutcome>;
}

export function createLeaseStore(store: Store): LeaseStore {
  const common = { inFlightMax: STATEMENTS_IN_FLIGHT_MAX, queueMax: QUEUE_MAX };
  const grants = createCoalescer<GrantRequest, GrantOutcome>({
    ...common,
    run: (requests) => grantBatch(store, requests),
    keysOf: (request) => [resourceKey(request)],
    batchSizeMax: GRANTS_PER_STATEMENT_MAX,
    onBatch: (size) => {
      store.observer.batch('grant', size);
    },
  });
  const renewals = perFace((face) =>
    createCoalescer<RenewRequest, RenewAnswer>({
      ...common,
      run: (requests) => renewBatch(store, face, requests),
      keysOf: (request) => [request.leaseId],
      batchSizeMax: RENEWALS_PER_STATEMENT_MAX,
      onBatch: (size) => {
        store.observer.batch('renew', size);
      },
    }),
  );
  const releases = perFace((face) =>
    createCoalescer<ReleaseRequest, ReleaseOutcome>({
      ...common,
      run: (requests) => releaseBatch(store, face, requests),
      keysOf: (request) => [request.leaseId],
      batchSizeMax: RELEASES_PER_STATEMENT_MAX,
      onBatch: (size) => {
        store.observer.batch('release', size);
      },
    }),
  );
  return {
    grant: (request, signal) => grants.submit(request, signal),
    async renew(face, request) {
      const outcome = await renewals[face].submit(request);
      observeRenewals(store, face, [outcome]);
      if (outcome === undefined) throw new LeaseError('grant.contended');
      return outcome;
    },
    async renewAll(face, requests) {
      const outcomes = await renewals[face].submitAll(requests);
      observeRenewals(store, face, outcomes);
      return outcomes;
    },
    async release(face, request) {
      const outcome = await releases[face].submit(request);
      store.observer.release(face, outcome);
      return outcome;
    },
  };
}

function perFace<T>(make: (face: Face) => T): Record<Face, T> {
  return { key: make('key'), lease: make('lease'), environment: make('environment') };
}

/** Runs a statement and tells the observer how long it took. */
export async function timed<T>(
  store: Store,
  kind: StatementKind,
  run: () => Promise<T>,
): Promise<T> {
  const startedAtMs = store.clock.nowMs();
  try {
    return await run();
  } finally {
    store.observer.statement(kind, store.clock.nowMs() - startedAtMs);
  }
}

async function grantBatch(
  store: Store,
  requests: readonly GrantRequest[],
): Promise<(GrantOutcome | Promise<GrantOutcome>)[]> {
  const options: GrantOptions = {
    ...store.clockWatch.belief(store.clock.nowMs()),
    onLocked: 'skip',
  };
  const sentAtMs = store.clock.nowMs();
  let granted: Map<string, Grant>;
  try {
    granted = await timed(store, 'grant', () => grant(store.prisma, requests, options));
  } catch (error) {
    if (databaseFailureOf(error) !== 'lost') throw error;
    return findLostGrants(store, requests, error);
  }
  watchClock(store, granted.values(), sentAtMs);
  const refused = requests.filter((request) => !granted.has(request.leaseId));
  const holders = new Map<string, LeaseRow | undefined>();
  if (refused.length > 0) {
    await assertNoHoldOff(store.prisma);
    const rows = await readLeases(store.prisma, refused);
    refused.forEach((request, index) => holders.set(request.leaseId, rows[index]));
    watchClock(store, rows, sentAtMs);
  }
  return requests.map((request) => {
    const own = granted.get(request.leaseId);
    if (own !== undefined) return grantedOutcome(store, own);
    const by = holders.get(request.leaseId);
    if (by !== undefined && !isTakable(by)) return heldOutcome(store, by);
    return grantAlone(store, request);
  });
}

/** Whether a row, as it was read, could be granted: then the grant met a lock or a change. */
function isTakable(row: LeaseRow): boolean {
  const isOver = row.endReason !== null || row.asOf >= row.expiresAt;
  return isOver && (row.stopsBy === null || row.asOf >= row.stopsBy);
}

/**
 * The slow lane: a resource that seemed free and was not granted is asked for alone, waiting a
 * little for its row, on connections of its own.
 */
async function grantAlone(store: Store, request: GrantRequest): Promise<GrantOutcome> {
  let by: LeaseRow | undefined;
  for (let tries = 0; tries < GRANT_TRIES_MAX; tries += 1) {
    const granted = await grantWaiting(store, request);
    if (granted !== undefined) return grantedOutcome(store, granted);
    [by] = await readLeases(store.prisma, [request]);
    if (by !== undefined && !isTakable(by)) return heldOutcome(store, by);
  }
  // Its last holder has let it run out, and keeps the row locked: a fenced transaction.
  if (by !== undefined) return heldOutcome(store, by);
  throw new LeaseError('grant.contended');
}

async function grantWaiting(store: Store, request: GrantRequest): Promise<Grant | undefined> {
  const options: GrantOptions = {
    ...store.clockWatch.belief(store.clock.nowMs()),
    onLocked: 'wait',
  };
  try {
    return await store.slowLane.$transaction(async (tx) => {
      await tx.$queryRaw`select set_config('lock_timeout', ${String(SLOW_LANE_LOCK_TIMEOUT_MS)}, true)`;
      return (await grant(tx, [request], options)).get(request.leaseId);
    });
  } catch (error) {
    if (databaseFailureOf(error) === 'contention') return undefined;
    throw error;
  }
}

function grantedOutcome(store: Store, own: Grant): GrantOutcome {
  const status = own.previous?.end === 'expired' ? 'expired' : 'free';
  store.observer.grant(own.face, 'granted', status);
  return { outcome: 'granted', grant: own };
}

function heldOutcome(store: Store, by: LeaseRow): GrantOutcome {
  store.observer.grant(by.face, 'denied', by.asOf < by.expiresAt ? 'active' : 'expired');
  return { outcome: 'held', by, waiterCount: 0 };
}

/** Every answer tells what the database's clock shows, refusals too. */
function watchClock(
  store: Store,
  rows: Iterable<{ readonly asOf: number } | undefined>,
  sentAtMs: number,
): void {
  for (const row of rows) {
    if (row === undefined) continue;
    store.clockWatch.observe(row.asOf, sentAtMs, store.clock.nowMs());
    return;
  }
}

/**
 * The connection broke while the statement ran. It may still be waiting for a lock and grant later,
 * so this waits until the server has surely cancelled it, and looks what became of each grant.
 */
async function findLostGrants(
  store: Store,
  requests: readonly GrantRequest[],
  cause: unknown,
): Promise<GrantOutcome[]> {
  await pause(store, store.statementTimeoutMs + 500);
  const unknown = (): LeaseError => new LeaseError('request.outcome_unknown', undefined, { cause });
  const rows = await readLeases(store.prisma, requests).catch(() => {
    throw unknown();
  });
  return requests.map((request, index) => {
    const row = rows[index];
    if (row?.leaseId !== request.leaseId) throw unknown();
    return grantedOutcome(store, {
      ...row,
      ladder: request.ladder,
      remainingMs: row.expiresAt - row.asOf,
      previous: null,
    });
  });
}

/** @throws {LeaseError} `grant.hold_off` while a restored database grants nothing. */
export async function assertNoHoldOff(sql: Sql): Promise<void> {
  const [row] = await sql.$queryRaw<{ remainingMs: number }[]>`
    select case
      when hold_off_until > clock_timestamp()
        then extract(epoch from hold_off_until - clock_timestamp())::float8 * 1000
      else longest_ttl_ms
    end as "remainingMs"
    from database_epoch
    where database_holds_off(hold_off_until, system_identifier, timeline)`;
  if (row !== undefined) {
    throw new LeaseError('grant.hold_off', undefined, {
      details: { remainingMs: Math.ceil(row.remainingMs) },
    });
  }
}

async function renewBatch(
  store: Store,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<(RenewAnswer | Promise<RenewAnswer>)[]> {
  const answers = await renewOnce(store, face, requests);
  const skipped = requests.filter((request) => !answers.has(request.leaseId));
  const later = skipped.length === 0 ? undefined : renewSkipped(store, face, skipped);
  return requests.map(
    ({ leaseId }) => answers.get(leaseId) ?? later?.then((found) => found.get(leaseId)),
  );
}

/** What one statement can say; a request without an answer met a row that was locked. */
async function renewOnce(
  store: Store,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Map<string, RenewOutcome>> {
  const answers = await timed(store, 'renew', () => renew(store.renewals, face, requests));
  const missing = requests.filter((request) => !answers.has(request.leaseId));
  if (missing.length === 0) return answers;
  const ends = await readEndedGrants(store.renewals, face, missing);
  for (const { leaseId } of missing) {
    const end = ends.get(leaseId);
    if (end !== 'current') answers.set(leaseId, refusal(leaseId, end ?? 'not_found'));
  }
  return answers;
}

/**
 * Renewals whose rows were locked are tried again a moment later, together, and never waited for: a
 * row that somebody keeps must not delay the answer to the others of its call. What is locked then
 * as well stays without an answer, which its holder takes as a try that failed.
 */
async function renewSkipped(
  store: Store,
  face: Face,
  skipped: readonly RenewRequest[],
): Promise<Map<string, RenewOutcome>> {
  const answers = new Map<string, RenewOutcome>();
  for (let tries = 0; tries < SKIPPED_RENEWAL_TRIES; tries += 1) {
    await pause(store, SKIPPED_RENEWAL_PAUSE_MS);
    const left = skipped.filter(({ leaseId }) => !answers.has(leaseId));
    if (left.length === 0) break;
    try {
      for (const [leaseId, answer] of await renewOnce(store, face, left)) {
        answers.set(leaseId, answer);
      }
    } catch (error) {
      // Their neighbours have been renewed, and are to hear of it.
      if (databaseFailureOf(error) === 'other') throw error;
    }
  }
  return answers;
}

function pause(store: Store, ms: number): Promise<void> {
  return new Promise((resolve) => {
    store.clock.at(store.clock.nowMs() + ms, resolve);
  });
}

/** Counts by outcome: a call of a thousand renewals is told in a few words. */
function observeRenewals(store: Store, face: Face, outcomes: readonly RenewAnswer[]): void {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    const said = outcome?.outcome === 'refused' ? outcome.reason : (outcome?.outcome ?? 'locked');
    counts.set(said, (counts.get(said) ?? 0) + 1);
  }
  for (const [said, count] of counts) store.observer.renewal(face, said, count);
}

function refusal(leaseId: string, reason: RefusalReason): RenewOutcome {
  return { leaseId, outcome: 'refused', reason };
}

async function releaseBatch(
  store: Store,
  face: Face,
  requests: readonly ReleaseRequest[],
): Promise<(ReleaseOutcome | Promise<ReleaseOutcome>)[]> {
  const answers = await timed(store, 'release', () =>
    release(store.prisma, face, requests, 'skip'),
  );
  const missing = requests.filter((request) => !answers.has(request.leaseId));
  const ends =
    missing.length === 0
      ? new Map<string, PastEnd | 'current'>()
      : await readEndedGrants(store.prisma, face, missing);
  return requests.map((request) => {
    const answer = answers.get(request.leaseId);
    if (answer !== undefined) return answer;
    const end = ends.get(request.leaseId);
    return end === 'current' ? releaseAlone(store.slowLane, face, request) : pastRelease(end);
  });
}

/** A release that waits for its row: in a transaction of its caller's, or after it was skipped. */
export async function releaseAlone(
  sql: Sql,
  face: Face,
  request: ReleaseRequest,
): Promise<ReleaseOutcome> {
  const answer = (await release(sql, face, [request], 'wait')).get(request.leaseId);
  if (answer !== undefined) return answer;
  const end = (await readEndedGrants(sql, face, [request])).get(request.leaseId);
  if (end === 'current') throw new LeaseError('grant.contended');
  return pastRelease(end);
}

function pastRelease(end: PastEnd | undefined): ReleaseOutcome {
  return end === 'released' ? 'already_released' : (end ?? 'not_found');
}

/** The ladder that a row carries. */
export function ladderOf(row: Ladder): Ladder {
  return {
    renewAfterMs: row.renewAfterMs,
    softAfterMs: row.softAfterMs,
    hardAfterMs: row.hardAfterMs,
    ttlMs: row.ttlMs,
  };
}
