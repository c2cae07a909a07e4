import { expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import { raceIdleStops } from '../testing/idle-races.ts';

test(`of a caller and the idle stop that come at once one wins, and no caller is sent to what is being stopped, seed ${String(seed())}`, async () => {
  const { kept, stopped, betrayed, overdue } = await raceIdleStops(200, seed());

  expect({ betrayed, overdue }).toEqual({ betrayed: 0, overdue: 0 });
  expect(Math.min(kept, stopped)).toBeGreaterThan(5);
});
