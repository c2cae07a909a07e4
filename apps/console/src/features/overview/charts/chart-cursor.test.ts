import { expect, test } from 'vitest';
import { movedBy } from './chart-cursor.ts';

const STEPS = [10, 20, 30];

test('arrow keys move the cursor by a step, from the newest on, and stop at the ends', () => {
  expect(movedBy('ArrowLeft', null, STEPS)).toBe(30);
  expect(movedBy('ArrowLeft', 30, STEPS)).toBe(20);
  expect(movedBy('ArrowLeft', 10, STEPS)).toBe(10);
  expect(movedBy('ArrowRight', 30, STEPS)).toBe(30);
  expect([movedBy('Home', 20, STEPS), movedBy('End', 20, STEPS)]).toEqual([10, 30]);
});

test('Escape takes the cursor away, other keys leave it, and without steps it is nowhere', () => {
  expect(movedBy('Escape', 20, STEPS)).toBeNull();
  expect(movedBy('a', 20, STEPS)).toBeUndefined();
  expect(movedBy('ArrowLeft', null, [])).toBeNull();
});
