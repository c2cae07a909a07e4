import type { Clock } from '../kernel/clock.ts';

/** What one statement deletes at most, so that none holds locks for long. */
export const ROWS_PER_STATEMENT_MAX = 1_000;
/** So that a backlog is worked off, and a controller that stops is not held up by it for long. */
const MS_PER_KIND_MAX = 1_000;

/** One round of removing what nobody needs any more. */
export interface RetentionPass {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Aborts when nothing more is to be removed. */
  readonly signal?: AbortSignal | undefined;
  /** A kind that could not be removed is told here; it does not keep the next ones. */
  readonly onFailure: (kind: string, error: unknown) => void;
}

/**
 * Repeats a statement that removes {@link ROWS_PER_STATEMENT_MAX} rows of a kind at most until it
 * finds fewer, or its time is up. @returns how many were removed.
 */
export async function removeAll(
  pass: RetentionPass,
  kind: string,
  remove: () => Promise<number>,
): Promise<number> {
  const endMs = pass.clock.nowMs() + MS_PER_KIND_MAX;
  let total = 0;
  try {
    while (pass.signal?.aborted !== true) {
      const removed = await remove();
      total += removed;
      if (removed < ROWS_PER_STATEMENT_MAX || pass.clock.nowMs() >= endMs) break;
    }
    return total;
  } catch (error) {
    pass.onFailure(kind, error);
    return total;
  }
}
