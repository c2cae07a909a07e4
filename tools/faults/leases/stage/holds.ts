/** Judges who held what, from the reports of the holders themselves. */
import type { TestProcess } from '@leasehold/testing';
import { allWords, type Grant } from './words.ts';

/** The time from a holder's first moment with a lease to its last. */
export interface Hold extends Grant {
  readonly fromMs: number;
  /** Infinite for a hold that goes on, or that died with its process. */
  readonly untilMs: number;
}

/** The holds that processes had, in the order of their tokens. */
export function holdsOf(processes: readonly TestProcess[]): Hold[] {
  const endings = new Map(
    allWords(processes, 'letting_go', 'lost')
      .reverse()
      .map((word) => [word.leaseId, word.atMs]),
  );
  return allWords(processes, 'held')
    .map(({ key, leaseId, token, atMs }) => ({
      key,
      leaseId,
      token,
      fromMs: atMs,
      untilMs: endings.get(leaseId) ?? Infinity,
    }))
    .sort((a, b) => (BigInt(a.token) < BigInt(b.token) ? -1 : 1));
}

/**
 * What is wrong with the holds of each key; empty when they followed each other (I1) with tokens that
 * grew (I2), each granted once. A hold that died with its process is bounded by `endsAtMs`.
 */
export function overlapsOf(
  holds: readonly Hold[],
  endsAtMs: (hold: Hold) => number = (hold) => hold.untilMs,
): string[] {
  const keys = [...new Set(holds.map((hold) => hold.key))];
  return keys.flatMap((key) => {
    const ofKey = holds.filter((hold) => hold.key === key);
    return ofKey.slice(1).flatMap((hold, index) => {
      const former = ofKey[index] as Hold;
      const what = `${hold.key}: ${hold.token} after ${former.token}`;
      const problems: string[] = [];
      const overlapMs = endsAtMs(former) - hold.fromMs;
      if (overlapMs > 0) problems.push(`${what} began ${overlapMs.toFixed(0)} ms too early`);
      if (hold.token === former.token) problems.push(`${what} was handed out twice`);
      return problems;
    });
  });
}
