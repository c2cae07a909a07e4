import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { type ApiError, isUnanswered } from '~/lib/api/api.ts';
import { absolute, ago, duration } from '~/lib/format.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { pause } from '~/lib/live/live-state.ts';
import { bringClockTo, StaleContext, useStaleSince } from '~/lib/live/use-database-now.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { Foot, Notice } from './states.tsx';
import { CopyableId } from './text.tsx';
import { Tip } from './tip.tsx';
import classes from './stale.module.css';

/** From this age on the data on a page is called stale, whatever the stream says; later where it is read more seldom. */
const STALE_MS = 12_000;
/** For how long data that was to be read again may be late. */
const LATE_MS = 5_000;
const TICK_MS = 500;
const SECOND_MS = 1_000;
/** How long after a pause data may be read again before its age counts again. */
const RESUMING_MS = 3_000;

/** The state of a query that its freshness depends on. */
interface Read {
  readonly dataUpdatedAt: number;
  readonly isError: boolean;
  readonly failureCount: number;
}

/** The age from which on data that is read again every `everyMs` is called stale. Pure. */
export function staleAfterMs(everyMs = 0): number {
  return Math.max(STALE_MS, everyMs + LATE_MS);
}

/**
 * How old the data of a page is. Stale: its last read failed, or it is older than {@link staleAfterMs}
 * although updates are not paused.
 */
function useFreshness(read: Read, everyMs: number | undefined) {
  const isByHand = useSignal(pause.isPausedByHand);
  const holds = useSignal(pause.holds);
  const isPaused = isByHand || holds > 0;
  const [seen, setSeen] = useState<Seen>({ atMs: 0, wallMs: 0, databaseMs: null });
  const [now, setNow] = useState({ atMs: 0, wallMs: 0 });
  useEffect(() => {
    const next = seenOf(read.dataUpdatedAt);
    // Before its first answer a part of the page shows nothing that the clock could be behind.
    if (read.dataUpdatedAt !== 0) bringClockTo(next.databaseMs);
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
    isStale: isFailing || (!isResuming && ageMs > staleAfterMs(everyMs)),
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

/** Why a page is stale, and what ends that; pure. */
export function staleReason(
  failure: Pick<ApiError, 'code' | 'message' | 'details'> | null,
  isSignedOut: boolean,
): string {
  if (isSignedOut || failure?.code === 'auth.required') {
    return 'You are signed out. Sign in to continue.';
  }
  if (failure === null) return 'No answer since then. Trying again automatically.';
  if (isUnanswered(failure)) {
    return 'The controller does not answer. Trying again automatically.';
  }
  return `Could not refresh: ${failure.message} (${failure.code})`;
}

/**
 * Around what a read is shown in. While that is stale, it shows this, why, and what ends it, and the
 * clock stands still inside, at the moment when the data came: a countdown that went on would show an
 * end that nobody has seen. Inside another one that already shows this, it shows nothing.
 */
export function StaleScope({
  read,
  everyMs,
  isMarked = false,
  children,
}: {
  readonly read: UseQueryResult<unknown, ApiError>;
  /** How often it is read again, where that is seldom. */
  readonly everyMs?: number | undefined;
  /** Whether a {@link DataAge} inside says it, for a part beside others that would say the same. */
  readonly isMarked?: boolean;
  readonly children: ReactNode;
}) {
  const { ageMs, cameAtMs, ...freshness } = useFreshness(read, everyMs);
  // Until the first read nothing is shown that could be stale.
  const isStale = freshness.isStale && read.data !== undefined;
  const isSignedOut = useSignal(signedOut);
  const failure = read.error ?? read.failureReason;
  const incidentId = useFirst(isStale, failure?.incidentId ?? null);
  const isSaid = useStaleSince() !== null;
  const since = useMemo(() => (isStale ? { databaseMs: cameAtMs } : null), [isStale, cameAtMs]);
  return (
    <>
      {isStale && !isSaid && !isMarked ? (
        <Foot>
          <Notice tone="bad">
            Stale. {staleReason(failure, isSignedOut)}{' '}
            {/* For eyes: told to screen readers, the notice would be read out each second. */}
            {read.dataUpdatedAt === 0 ? null : (
              <span aria-hidden>This is how it was {duration(ageMs)} ago. </span>
            )}
            {incidentId === null ? null : (
              <>
                Incident <CopyableId id={incidentId} label="incident id" />
              </>
            )}
          </Notice>
        </Foot>
      ) : null}
      <StaleContext value={since}>{children}</StaleContext>
    </>
  );
}

/** The first value while it lasts: each retry fails with another one, and would be read out again. */
function useFirst(isLasting: boolean, value: string | null): string | null {
  const [first, setFirst] = useState<string | null>(null);
  const next = isLasting ? (first ?? value) : null;
  if (next !== first) setFirst(next);
  return next;
}

/** `as of 2 s ago`, with the database's time on hover; marks stale data. */
export function DataAge({
  read,
  asOf,
  everyMs,
}: {
  readonly read: Read;
  readonly asOf: string | undefined;
  /** How often it is read again, where that is seldom. */
  readonly everyMs?: number | undefined;
}) {
  const { ageMs, isStale } = useFreshness(read, everyMs);
  if (read.dataUpdatedAt === 0) {
    // Its place, so that nothing moves when the data is there.
    return (
      <span className={classes['age']} data-unseen aria-hidden>
        as of just now
      </span>
    );
  }
  const age = (
    <span
      className={classes['age']}
      data-stale={isStale || undefined}
      {...(asOf === undefined ? {} : { tabIndex: 0 })}
    >
      {isStale ? 'stale: ' : ''}as of {ago(ageMs)}
    </span>
  );
  // Lists whose answer does not carry the database's time have an age all the same.
  if (asOf === undefined) return age;
  return <Tip label={<span className="mono">database time {absolute(asOf)}</span>}>{age}</Tip>;
}
