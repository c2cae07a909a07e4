import { expect, test } from 'vitest';
import { newTimedId } from './clock.ts';

const RANDOM = 'ffffffff-ffff-4abc-9def-0123456789ab';

function idAt(nowMs: number): string {
  return newTimedId({ clock: { nowMs: () => nowMs }, ids: { uuid: () => RANDOM } });
}

test('ids of one machine grow with its time, whatever is random in them', () => {
  const ids = [0, 1.5, 16, 4_096, 86_400_000, 8.64e12].map(idAt);

  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test('74 random bits stay, in a UUID that says that its beginning is our own', () => {
  expect(idAt(4_096)).toBe('00000000-1000-8abc-9def-0123456789ab');
  expect(idAt(2 ** 48 + 1)).toBe('00000000-0001-8abc-9def-0123456789ab');
});
