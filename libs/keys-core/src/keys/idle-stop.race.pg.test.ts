import { expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import { raceIdleStops } from '../testing/idle-races.ts';

test(`of a caller and the idle stop that come at once one wins, and no caller is sent to what is being stopped, seed ${String(seed())}`, async () => {
  const { betrayed, overdue } = await raceIdleStops(200, 5, seed());

  expect({ betrayed, overdue }).toEqual({ betrayed: 0, overdue: 0 });
});
