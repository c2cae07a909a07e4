/**
 * How long the agent waits for its warden: fractions of the time from soft to hard, so that the
 * whole chain ends before hard whatever the ladder is.
 *
 *   soft ──ask, within a tick──▶ no reply after 1/2 ──look again──▶ kill at 3/4, within a tick ──▶ hard
 *
 * The leash acts in the first quarter of what is left from hard to expiry. The shortest time from soft
 * to hard that a ladder may have is 500 ms, and so is that from hard to expiry; a tick is 50 ms.
 */
import type { Ladder } from '@leasehold/keys-core';

const REPLY_SHARE = 1 / 2;
const KILL_SHARE = 3 / 4;
const LEASH_SHARE = 1 / 4;
/** The longest wait, however long the ladder is; also while this agent has no grant. */
const REPLY_MS_MAX = 3_000;

type Rungs = Pick<Ladder, 'softAfterMs' | 'hardAfterMs'>;

function goodbyeMs({ softAfterMs, hardAfterMs }: Rungs): number {
  return hardAfterMs - softAfterMs;
}

/** How long to wait for a reply of the warden while these grants are held. */
export function replyTimeoutMs(ladders: Iterable<Rungs>): number {
  let shortestMs = Number.POSITIVE_INFINITY;
  for (const ladder of ladders) shortestMs = Math.min(shortestMs, goodbyeMs(ladder));
  return Math.min(REPLY_MS_MAX, shortestMs * REPLY_SHARE);
}

/** From the moment a key is to be renewed until its backend is to stop; the longest of several. */
export function renewWindowMs(
  ladders: Iterable<Pick<Ladder, 'renewAfterMs' | 'softAfterMs'>>,
): number {
  let longestMs = 0;
  for (const { renewAfterMs, softAfterMs } of ladders) {
    longestMs = Math.max(longestMs, softAfterMs - renewAfterMs);
  }
  return longestMs;
}

/** When a warden that does not answer is asked about a backend at the latest: its soft deadline. */
export function askAtMs(hardAtMs: number, ladder: Rungs): number {
  return hardAtMs - goodbyeMs(ladder);
}

/** When a warden that does not answer is killed because of a backend. */
export function killAtMs(hardAtMs: number, ladder: Rungs): number {
  return hardAtMs - goodbyeMs(ladder) * (1 - KILL_SHARE);
}

/**
 * How long after hard the leash ends a warden that has not killed the backend: the time for a
 * warden that is merely late, on a busy machine.
 */
export function leashMs({ hardAfterMs, ttlMs }: Pick<Ladder, 'hardAfterMs' | 'ttlMs'>): number {
  return (ttlMs - hardAfterMs) * LEASH_SHARE;
}
