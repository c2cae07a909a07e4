/**
 * When a holder renews, stops gently and stops hard, and when the grant expires: milliseconds after
 * the grant or its latest renewal. The idea and the standard values are Plane's.
 */
export interface Ladder {
  readonly renewAfterMs: number;
  readonly softAfterMs: number;
  readonly hardAfterMs: number;
  readonly ttlMs: number;
}

/** Deadlines in the holder's own clock. */
export interface Deadlines {
  readonly renewAtMs: number;
  readonly softTerminateAtMs: number;
  readonly hardTerminateAtMs: number;
}

/** The ladders that `LEASEHOLD_PRESET` names. `fast` serves demonstrations and tests. */
export const KEY_LADDERS = {
  standard: { renewAfterMs: 30_000, softAfterMs: 40_000, hardAfterMs: 50_000, ttlMs: 60_000 },
  fast: { renewAfterMs: 3_000, softAfterMs: 4_000, hardAfterMs: 5_000, ttlMs: 6_000 },
} as const satisfies Record<string, Ladder>;

/** How often a drone reports its clock, for each preset. */
export const HEARTBEAT_MS = { standard: 7_000, fast: 1_000 } as const satisfies Record<
  keyof typeof KEY_LADDERS,
  number
>;

/** The least time between a soft and a hard stop: a process needs it to say goodbye. */
const SOFT_TO_HARD_MS_MIN = 500;
/** What is left after the hard stop for the tick, the kill and the exit, and for clock rates. */
const SLACK_MS_MIN = 500;
const SLACK_SHARE_MIN = 10;

/** What is wrong with a ladder; empty when nothing is. */
export function ladderProblems(ladder: Ladder, heartbeatMs: number): string[] {
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = ladder;
  const problems: string[] = [];
  const values: [string, number][] = [
    ['renew', renewAfterMs],
    ['soft', softAfterMs],
    ['hard', hardAfterMs],
    ['expire', ttlMs],
  ];
  for (const [name, value] of values) {
    if (!Number.isInteger(value) || value <= 0) {
      problems.push(`${name} must be a positive whole number of ms`);
    }
  }
  if (!(renewAfterMs < softAfterMs)) problems.push('renew must be less than soft');
  if (softAfterMs + SOFT_TO_HARD_MS_MIN > hardAfterMs) {
    problems.push(`soft must be at least ${String(SOFT_TO_HARD_MS_MIN)} ms less than hard`);
  }
  const slackMs = Math.max(SLACK_MS_MIN, ttlMs / SLACK_SHARE_MIN);
  if (ttlMs - hardAfterMs < slackMs) {
    problems.push(
      `expire must be at least max(${String(SLACK_MS_MIN)} ms, expire / ${String(SLACK_SHARE_MIN)}) more than hard`,
    );
  }
  if (2 * heartbeatMs >= renewAfterMs) {
    problems.push('two heartbeat intervals must be less than renew');
  }
  return problems;
}

/** Whether two ladders have the same deadlines. */
export function isSameLadder(one: Ladder, other: Ladder): boolean {
  return (
    one.renewAfterMs === other.renewAfterMs &&
    one.softAfterMs === other.softAfterMs &&
    one.hardAfterMs === other.hardAfterMs &&
    one.ttlMs === other.ttlMs
  );
}

/** How long a process may take to be gone after SIGKILL, in the calculation of clock rates. */
const STOP_ALLOWANCE_MS = 500;

/**
 * The ratio of the rates of two clocks that a ladder tolerates: a holder whose clock runs this much
 * slower than the database's has still stopped when the grant expires. Printed at start.
 */
export function toleratedClockRatio(ladder: Ladder): number {
  return ladder.ttlMs / (ladder.hardAfterMs + STOP_ALLOWANCE_MS);
}

/**
 * The deadlines of a holder that asked at `localTimeMs` of its own clock and whose grant had
 * `remainingMs` left when the database answered. Counted back from the expiry, so that an answer
 * that was replayed, batched or delayed is early and never late. Stored instants are rounded to the
 * millisecond, so a fresh grant can seem to have a fraction more left than its TTL: that is cut off.
 */
export function deadlinesFrom(ladder: Ladder, localTimeMs: number, remainingMs: number): Deadlines {
  const expiresAtMs = localTimeMs + Math.min(remainingMs, ladder.ttlMs);
  return {
    renewAtMs: expiresAtMs - (ladder.ttlMs - ladder.renewAfterMs),
    softTerminateAtMs: expiresAtMs - (ladder.ttlMs - ladder.softAfterMs),
    hardTerminateAtMs: expiresAtMs - (ladder.ttlMs - ladder.hardAfterMs),
  };
}

/**
 * The ladder of a grant whose caller said that it will confirm it, until it does: it renews at once. Short,
 * so that a grant whose answer was lost is free again within a second; less than any TTL, so that SQL can
 * distinguish them (`lease_confirmed`); and long enough for an answer and a renewal to travel 0.6 s.
 */
export const UNCONFIRMED_LADDER: Ladder = {
  renewAfterMs: 0,
  softAfterMs: 650,
  hardAfterMs: 650,
  ttlMs: 900,
};

/**
 * The ladder of a lease that a service holds: renewed after a third of its TTL or 30 s, whichever
 * is sooner; given up a grace of `max(ttl/6, 250 ms)` before it expires. Soft and hard are one:
 * a service has no second, harder stop.
 */
export function serviceLadder(ttlMs: number): Ladder {
  const loseAfterMs = ttlMs - Math.max(Math.ceil(ttlMs / 6), 250);
  return {
    renewAfterMs: Math.min(Math.floor(ttlMs / 3), 30_000),
    softAfterMs: loseAfterMs,
    hardAfterMs: loseAfterMs,
    ttlMs,
  };
}
