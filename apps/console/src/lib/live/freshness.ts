import { useEffect, useState } from 'react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { useSignal } from '~/lib/signal.ts';
import { databaseClock } from './database-clock.ts';
import { pause } from './live-state.ts';
import { bringClockTo } from './use-database-now.ts';

/** From this age on the data on a page is called stale, whatever the stream says. */
const STALE_MS = 12_000;
const TICK_MS = 500;
const SECOND_MS = 1_000;
/** How long after a pause data may be read again before its age counts again. */
const RESUMING_MS = 3_000;

/** The state of a query that its freshness depends on. */
export interface Read {
  readonly dataUpdatedAt: number;
  readonly isError: boolean;
  readonly failureCount: number;
}

/**
 * How old the data of a page is. Stale: its last read failed, or it is older than {@link STALE_MS}
 * although updates are not paused.
 */
export function useFreshness(read: Read) {
  const isByHand = useSignal(pause.isPausedByHand);
  const holds = useSignal(pause.holds);
  const isPaused = isByHand || holds > 0;
  const [seen, setSeen] = useState<Seen>({ atMs: 0, wallMs: 0, databaseMs: null });
  const [now, setNow] = useState({ atMs: 0, wallMs: 0 });
  useEffect(() => {
    const next = seenOf(read.dataUpdatedAt);
    bringClockTo(next.databaseMs);
    setSeen(next);
    setNow(clocks());
  }, [read.dataUpdatedAt]);
  useEffect(() => {
    const timer = setInterval(() => {
      // Only what changes is rendered again: an age is shown in seconds.
      setNow((shown) => {
        const next = clocks();
        return secondsOld(seen, next) === secondsOld(seen, shown) ? shown : next;
      });
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [seen]);
  const [wasPaused, setWasPaused] = useState(isPaused);
  const [resumedAtMs, setResumedAtMs] = useState(-RESUMING_MS);
  if (isPaused !== wasPaused) {
    setWasPaused(isPaused);
    if (!isPaused) setResumedAtMs(now.atMs);
  }
  const ageMs = ageOf(seen, now);
  const isResuming = isPaused || now.atMs - resumedAtMs < RESUMING_MS;
  const isFailing = read.isError || read.failureCount > 0;
  return {
    /** How long ago the data on the page came, in milliseconds. */
    ageMs,
    /** Whether the page must not be taken for the present. */
    isStale: isFailing || (!isResuming && ageMs > STALE_MS),
    /** When the data came, in the database's epoch milliseconds; null when that is not known. */
    cameAtMs: seen.databaseMs,
  };
}

/** The moment at which data came, by three clocks: monotonic, wall, and the database's. */
interface Seen {
  readonly atMs: number;
  readonly wallMs: number;
  readonly databaseMs: number | null;
}

type Clocks = Pick<Seen, 'atMs' | 'wallMs'>;

function clocks(): Clocks {
  return { atMs: performance.now(), wallMs: Date.now() };
}

/**
 * The monotonic clock of a machine stops while it sleeps, and its wall clock jumps when it is set. The
 * greater of the two ages is safe to show.
 */
function ageOf(seen: Seen, now: Clocks): number {
  return Math.max(0, now.atMs - seen.atMs, now.wallMs - seen.wallMs);
}

function secondsOld(seen: Seen, now: Clocks): number {
  return Math.floor(ageOf(seen, now) / SECOND_MS);
}

/** The data may have come long before: a page that is opened again shows what it had. */
function seenOf(dataUpdatedAt: number): Seen {
  const { atMs, wallMs } = clocks();
  const ageMs = dataUpdatedAt === 0 ? 0 : Math.max(0, wallMs - dataUpdatedAt);
  const databaseMs = databaseClock.nowMs();
  return {
    atMs: atMs - ageMs,
    wallMs: wallMs - ageMs,
    databaseMs: databaseMs === null ? null : databaseMs - ageMs,
  };
}

/** The codes of a missing answer, as this page or the console's own server noticed it. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'network',
  'request.unreachable',
  'request.outcome_unknown',
]);

/** Why a page is stale, and what ends that; pure. */
export function staleReason(
  failure: Pick<ApiError, 'code' | 'message'> | null,
  isSignedOut: boolean,
): string {
  if (isSignedOut || failure?.code === 'auth.required') {
    return 'You are signed out. Sign in to continue.';
  }
  if (failure === null) return 'No answer since then. Trying again automatically.';
  if (NO_ANSWER.has(failure.code)) {
    return 'The controller does not answer. Trying again automatically.';
  }
  return `Could not refresh: ${failure.message} (${failure.code})`;
}
