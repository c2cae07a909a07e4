import type { Clock } from '../kernel/clock.ts';

/** An answer is kept this many times as long as it took: reads use at most a tenth of the time. */
const KEPT_PER_COST = 10;
const KEPT_MS_MIN = 2_000;

/**
 * An expensive read with many callers: those that ask during a read share it. Its answer is kept for
 * `keptMsMin`, or for ten times as long as it took if that is longer. A failure goes to the callers that
 * shared the read, and is not kept.
 */
export function sharedRead<T>(
  clock: Pick<Clock, 'nowMs'>,
  read: () => Promise<T>,
  keptMsMin = KEPT_MS_MIN,
): () => Promise<T> {
  let kept: { readonly answer: Promise<T>; untilMs: number } | undefined;
  return () => {
    const startedAtMs = clock.nowMs();
    if (kept !== undefined && startedAtMs < kept.untilMs) return kept.answer;
    const mine = { answer: read(), untilMs: Number.POSITIVE_INFINITY };
    kept = mine;
    mine.answer.then(
      () => {
        const endedAtMs = clock.nowMs();
        mine.untilMs = endedAtMs + Math.max(keptMsMin, KEPT_PER_COST * (endedAtMs - startedAtMs));
      },
      () => {
        mine.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return mine.answer;
  };
}
