/** A day, at twice the rate that a turn of each minute removes: what is removed while it is fed stays as it is. */
import { createLogger } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { createBacklogs, MORE, removeOldRows } from './background.ts';
import { countRows, feed, LONG_WATCHED, OLD_KINDS, READS_PER_STATEMENT } from './testing/growth.ts';
import { openTestStore } from './testing/test-store.ts';

const LOG = createLogger({ name: 'test', level: 'silent' });
const HOURS = 24;
/** More than twice what a turn removes, which is a statement of a thousand. */
const FED_PER_HOUR = 2_100;
const STATEMENT_MS = 1_020;

test.each(OLD_KINDS)(
  '%s are fed for a day and removed meanwhile, and never pile up',
  async (kind) => {
    const store = await openTestStore();
    const { general } = store;
    let nowMs = 0;
    const clock = { ...store.clock, nowMs: () => (nowMs += STATEMENT_MS / READS_PER_STATEMENT) };
    const backlogs = createBacklogs({ nowMs: () => nowMs });
    const isBehind = (): boolean => (backlogs.behindMs()[kind] ?? 0) > 0;
    // A statement that fails, on a busy machine, is sent again by the next round, of which an hour has sixty.
    const remove = async (): Promise<void> => {
      for (let rounds = 0; rounds === 0 || (rounds < 60 && isBehind()); rounds += 1) {
        let answer: unknown = MORE;
        while (answer === MORE) {
          answer = await removeOldRows(
            {
              store: { general, clock, clockWatch: LONG_WATCHED },
              log: LOG,
              retentionDays: 30,
              backlogs,
            },
            AbortSignal.timeout(60_000),
          );
        }
      }
    };
    const left: number[] = [];

    for (let hour = 0; hour < HOURS; hour += 1) {
      await Promise.all([
        feed(store, kind, { first: 1 + hour * FED_PER_HOUR, count: FED_PER_HOUR }),
        remove(),
      ]);
      left.push(await countRows(store, kind));
    }
    await remove();

    // No more than the last hour has brought: those that came too late for its round.
    expect(Math.max(...left)).toBeLessThanOrEqual(FED_PER_HOUR);
    expect(await countRows(store, kind)).toBe(0);
    expect(backlogs.behindMs()[kind]).toBe(0);
  },
);
