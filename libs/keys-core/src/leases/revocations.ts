/**
 * How holders learn at once that a grant of theirs was revoked, wherever that was done.
 *
 * One watch per controller serves all sessions. While there is a session it reads what was revoked:
 * at a hint, and every {@link POLL_MS} in any case, because hints may be lost. Events are numbered
 * before they are committed, so it reads the last {@link OVERLAP_MS} again each time and passes over
 * what it has seen. What was revoked within {@link REPLAY_MS} is kept, for a holder whose connection
 * was gone at that moment: its session begins with it. While there is no session, nothing is read.
 */
import { untilCalled } from '../kernel/clock.ts';
import type { Store } from '../postgres/open-store.ts';
import type { RevocationNotice } from './lease-types.ts';
import {
  findRevocationBefore,
  readRevocations,
  type Revocation,
  REVOCATIONS_TOPIC,
} from './sql/revocations.ts';

/** How long a revocation goes unnoticed at most when its hint is lost. */
const POLL_MS = 500;
/** Far longer than the statement that revokes can take from its event to its commit. */
const OVERLAP_MS = 10_000;
/** Longer than it takes to connect again. */
const REPLAY_MS = 60_000;
const ROWS_PER_READ_MAX = 1_000;
/** A session whose holder does not read misses what comes after; its renewals report the same. */
const UNREAD_MAX = 10_000;

export interface RevocationWatch {
  /** Revocations of what this principal holds or held, as they happen; ends with the signal. */
  follow(principal: string, signal: AbortSignal): AsyncIterable<RevocationNotice>;
  /** How many sessions follow. */
  readonly sessionCount: number;
}

/** A notice with its moment in the store's clock, reported as time left when it is passed on. */
interface Pending {
  readonly notice: Omit<RevocationNotice, 'stopsByMs'>;
  readonly stopsAtMs: number;
}

interface Known extends Pending {
  readonly principal: string;
  readonly happenedAtMs: number;
}

interface Session {
  readonly principal: string;
  readonly unread: Pending[];
  wake: () => void;
}

/** Starts when the first session does. `onError` is told of reads that failed; they are tried again. */
export function createRevocationWatch(
  store: Pick<Store, 'general' | 'hints' | 'clock'>,
  onError: (error: unknown) => void,
): RevocationWatch {
  const sessionsOf = new Map<string, Set<Session>>();
  let sessionCount = 0;
  let watching: { readonly reader: RevocationReader; readonly stop: AbortController } | undefined;

  async function run(reader: RevocationReader, signal: AbortSignal): Promise<void> {
    while (!isOver(signal)) {
      // Waiting begins before the look, so that no hint in between is missed.
      const next = store.hints.next(REVOCATIONS_TOPIC, store.clock.nowMs() + POLL_MS, signal);
      try {
        await reader.read((known) => {
          if (!isOver(signal)) tell(known);
        });
      } catch (error) {
        if (!isOver(signal)) onError(error);
      }
      await next;
    }
  }

  function begin(session: Session): void {
    const { principal } = session;
    const sessions = sessionsOf.get(principal) ?? new Set();
    sessionsOf.set(principal, sessions.add(session));
    sessionCount += 1;
    if (watching === undefined) {
      watching = { reader: new RevocationReader(store), stop: new AbortController() };
      void run(watching.reader, watching.stop.signal);
      return;
    }
    for (const known of watching.reader.recent) {
      if (known.principal === principal) pass(session, known);
    }
  }

  function end(session: Session): void {
    const sessions = sessionsOf.get(session.principal);
    sessions?.delete(session);
    if (sessions?.size === 0) sessionsOf.delete(session.principal);
    sessionCount -= 1;
    if (sessionCount > 0) return;
    watching?.stop.abort();
    watching = undefined;
  }

  function tell(known: Known): void {
    for (const session of sessionsOf.get(known.principal) ?? []) pass(session, known);
  }

  return {
    async *follow(principal, signal) {
      const session: Session = { principal, unread: [], wake: () => undefined };
      begin(session);
      try {
        while (!isOver(signal)) {
          const next = session.unread.shift();
          if (next === undefined) await woken(session, signal);
          else yield noticeOf(next, store.clock.nowMs());
        }
      } finally {
        end(session);
      }
    },
    get sessionCount() {
      return sessionCount;
    },
  };
}

/** A function, because an abort may come while something else is awaited. */
function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}

function pass(session: Session, pending: Pending): void {
  if (session.unread.length >= UNREAD_MAX) return;
  session.unread.push(pending);
  session.wake();
}

function noticeOf({ notice, stopsAtMs }: Pending, nowMs: number): RevocationNotice {
  return { ...notice, stopsByMs: Math.max(0, Math.round(stopsAtMs - nowMs)) };
}

function woken(session: Session, signal: AbortSignal): Promise<void> {
  return untilCalled((finish) => {
    session.wake = finish;
    return () => {
      session.wake = () => undefined;
    };
  }, signal);
}

/** Reads each revocation once, from {@link REPLAY_MS} ago on; after a restore of the database, those again. */
class RevocationReader {
  readonly #store: Pick<Store, 'general' | 'clock'>;
  /** Everything up to here was read and is old enough to be complete. */
  #afterId: string | undefined;
  /** Of the database whose numbers these are. */
  #epoch: number | null = null;
  /** The events that were read above that, each with the moment at which it happened. */
  readonly #seen = new Map<string, number>();
  recent: Known[] = [];

  constructor(store: Pick<Store, 'general' | 'clock'>) {
    this.#store = store;
  }

  /** Reports what has happened since the last read, page by page: a page that fails loses no other. */
  async read(tell: (known: Known) => void): Promise<void> {
    const { general } = this.#store;
    for (;;) {
      this.#afterId ??= await findRevocationBefore(general, REPLAY_MS);
      const { epoch, revocations } = await readRevocations(general, {
        afterId: this.#afterId,
        seenIds: [...this.#seen.keys()],
        limit: ROWS_PER_READ_MAX,
      });
      if (this.#isOfAnother(epoch)) continue;
      for (const known of this.#note(revocations)) tell(known);
      if (revocations.length < ROWS_PER_READ_MAX) break;
    }
    this.#forget();
  }

  /** Whether the database was restored since the last page: then it starts over, and what it knew is void. */
  #isOfAnother(epoch: number | null): boolean {
    const isOfAnother = this.#epoch !== null && this.#epoch !== epoch;
    this.#epoch = epoch;
    if (!isOfAnother) return false;
    this.#afterId = undefined;
    this.#seen.clear();
    this.recent = [];
    return true;
  }

  #note(rows: readonly Revocation[]): Known[] {
    const nowMs = this.#store.clock.nowMs();
    const known = rows.flatMap((row) => {
      const happenedAtMs = nowMs - row.ageMs;
      this.#seen.set(row.id, happenedAtMs);
      return row.principal === null || row.face === 'key'
        ? []
        : [knownOf(row, { principal: row.principal, nowMs })];
    });
    this.recent.push(...known);
    return known;
  }

  #forget(): void {
    const nowMs = this.#store.clock.nowMs();
    this.recent = this.recent.filter(({ happenedAtMs }) => happenedAtMs > nowMs - REPLAY_MS);
    for (const [id, happenedAtMs] of this.#seen) {
      if (happenedAtMs > nowMs - OVERLAP_MS) continue;
      if (BigInt(id) > BigInt(this.#afterId ?? 0)) this.#afterId = id;
    }
    for (const id of this.#seen.keys()) {
      if (BigInt(id) <= BigInt(this.#afterId ?? 0)) this.#seen.delete(id);
    }
  }
}

function knownOf(
  row: Revocation,
  at: { readonly principal: string; readonly nowMs: number },
): Known {
  return {
    principal: at.principal,
    notice: {
      leaseId: row.leaseId,
      kind: row.isForced ? 'revoked' : 'revoking',
      reason: row.reason,
    },
    stopsAtMs: at.nowMs + row.remainingMs,
    happenedAtMs: at.nowMs - row.ageMs,
  };
}
