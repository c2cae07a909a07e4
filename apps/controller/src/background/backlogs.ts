import type { Clock } from '@leasehold/keys-core';

/** A round of a job whose answer is this has left work undone: the next round begins at once. */
export const MORE = 'more';

/** A job that has noted nothing for this long, in milliseconds, is done by another controller. */
const NOTED_MS_MAX = 300_000;

/** For how long each job has not caught up with what feeds it. */
export interface Backlogs {
  /** Notes whether a job has left something undone for its next round. */
  note(job: string, isMore: boolean): void;
  /** Runs one round of a job, notes whether it called `onMore`, and answers {@link MORE} if it did. */
  round(job: string, work: (onMore: () => void) => Promise<unknown>): Promise<unknown>;
  /** By job, in milliseconds; 0 for one that has caught up. */
  behindMs(): Record<string, number>;
}

export function createBacklogs(clock: Pick<Clock, 'nowMs'>): Backlogs {
  const noted = new Map<string, { readonly sinceMs: number | undefined; readonly atMs: number }>();
  const note = (job: string, isMore: boolean): void => {
    const atMs = clock.nowMs();
    noted.set(job, { sinceMs: isMore ? (noted.get(job)?.sinceMs ?? atMs) : undefined, atMs });
  };
  return {
    note,
    async round(job, work) {
      const left = { isMore: false };
      await work(() => {
        left.isMore = true;
      });
      note(job, left.isMore);
      return left.isMore ? MORE : undefined;
    },
    behindMs() {
      const nowMs = clock.nowMs();
      return Object.fromEntries(
        [...noted].map(([job, { sinceMs = nowMs, atMs }]) => [
          job,
          nowMs - atMs > NOTED_MS_MAX ? 0 : nowMs - sinceMs,
        ]),
      );
    },
  };
}
