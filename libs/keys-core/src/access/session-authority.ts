/**
 * Finds the session of a cookie's token. As with tokens of programs, answers are kept for a moment
 * ({@link CACHE_MS}), and whatever ends a session or changes what its person may do makes every
 * answer stale by a hint. Without the hint it takes effect after that moment.
 */
import { keepNewest } from '../kernel/requests-in-progress.ts';
import type { Store } from '../postgres/open-store.ts';
import {
  findPersonSession,
  markSessionsSeen,
  type SessionAccess,
} from './sql/people/person-sessions.ts';

const CACHE_MS = 1_000;
/** Signed in browsers that are active at once; the oldest answer goes first. */
const CACHED_SESSIONS_MAX = 10_000;
/** The use of a session is recorded at most this often. */
const SEEN_EVERY_MS = 10 * 60_000;

/** The topic of the hint that people or their sessions have changed. */
export const PEOPLE_TOPIC = 'people';

export interface SessionAuthority {
  /** The session with this token, or undefined when none is in force. */
  authenticate(token: string): Promise<SessionAccess | undefined>;
  /** Records which sessions were used, where that is due; called from the background. */
  flushSeen(): Promise<void>;
  close(): void;
}

interface CachedSession {
  readonly access: Promise<SessionAccess | undefined>;
  readonly readAtMs: number;
}

export function createSessionAuthority(
  store: Pick<Store, 'vital' | 'hints' | 'clock'>,
): SessionAuthority {
  const cached = new Map<string, CachedSession>();
  const used = new Set<string>();
  const writtenAtMs = new Map<string, number>();
  const off = store.hints.on(PEOPLE_TOPIC, () => {
    // A lookup under way may find the state from before the change: nobody else may get its answer.
    cached.clear();
  });

  function look(token: string): Promise<SessionAccess | undefined> {
    const nowMs = store.clock.nowMs();
    const known = cached.get(token);
    if (known !== undefined && nowMs - known.readAtMs < CACHE_MS) return known.access;
    const entry = { access: findPersonSession(store.vital, token), readAtMs: nowMs };
    keepNewest(cached, CACHED_SESSIONS_MAX, [token, entry]);
    entry.access.catch(() => {
      // A failure is not an answer: the next caller asks again.
      if (cached.get(token) === entry) cached.delete(token);
    });
    return entry.access;
  }

  return {
    async authenticate(token) {
      const access = await look(token);
      if (access !== undefined) used.add(access.sessionId);
      return access;
    },
    async flushSeen() {
      const nowMs = store.clock.nowMs();
      const isDue = (sessionId: string): boolean =>
        nowMs - (writtenAtMs.get(sessionId) ?? -Infinity) >= SEEN_EVERY_MS;
      const due = [...used].filter(isDue);
      used.clear();
      for (const sessionId of [...writtenAtMs.keys()].filter(isDue)) writtenAtMs.delete(sessionId);
      if (due.length === 0) return;
      await markSessionsSeen(store.vital, due);
      for (const sessionId of due) writtenAtMs.set(sessionId, nowMs);
    },
    close: off,
  };
}
