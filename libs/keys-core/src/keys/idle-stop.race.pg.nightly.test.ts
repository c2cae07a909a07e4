import { expect, test } from 'vitest';
import { repetitions, seed } from '@leasehold/testing';
import { raceIdleStops } from '../testing/idle-races.ts';

const RACES = repetitions({ short: 20_000, long: 200_000 });

test(
  `${String(RACES)} callers that come when their backend is to be stopped: none is sent to what is being stopped, and no backend lives on unused, seed ${String(seed())}`,
  { timeout: RACES * 200 },
  async () => {
    const { betrayed, overdue } = await raceIdleStops(RACES, RACES / 40, seed());

    expect({ betrayed, overdue }).toEqual({ betrayed: 0, overdue: 0 });
  },
);
