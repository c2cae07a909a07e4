import { describe, expect, test } from 'vitest';
import { SILENT_OBSERVER, type Store } from '@leasehold/keys-core/postgres';
import {
  readSeries,
  type StatsStep,
  createStatsCounter,
  numbersOf,
} from '@leasehold/keys-core/stats';
import { openTestStore } from '../testing/test-store.ts';

async function stepsOf(store: Store): Promise<readonly StatsStep[]> {
  return (await readSeries(store.guests, { stepMs: 60_000, stepCount: 2 })).steps;
}

describe('counting what no event records', () => {
  test('renewals, denials, waits and handovers are added up, and passed on', async () => {
    const store = await openTestStore();
    const toldOn: string[] = [];
    const stats = createStatsCounter();
    const observer = stats.observing({
      ...SILENT_OBSERVER,
      grant: (face, outcome, status) => toldOn.push(`${face} ${outcome} ${status}`),
      reaped: (face) => toldOn.push(`${face} reaped`),
    });

    observer.grant('lease', 'denied', 'active');
    observer.grant('lease', 'granted', 'free');
    observer.grant('key', 'denied', 'active');
    observer.joined('key');
    observer.renewal('lease', 'renewed', 500);
    observer.renewal('lease', 'locked', 9);
    observer.waited('lease', 400, 'granted');
    observer.waited('lease', 60, 'gave_up');
    observer.handedOver('lease', 4);
    observer.reaped('lease', 1);
    await stats.flush(store);
    await stats.flush(store);

    expect(numbersOf(await stepsOf(store))).toMatchObject({
      grants: 0,
      denials: 1,
      renewals: 500,
      handoverMsP50: 4,
    });
    expect(toldOn).toEqual([
      'lease denied active',
      'lease granted free',
      'key denied active',
      'lease reaped',
    ]);
  });
});
