import { expect, test } from 'vitest';
import { typedWith } from './palette-store.ts';

const plain = { ctrlKey: false, metaKey: false, altKey: false };
const after = (...keys: readonly string[]) =>
  keys.reduce<ReturnType<typeof typedWith>>(
    (typed, key) => (typed === undefined ? undefined : typedWith(typed, { ...plain, key })),
    { text: '', isSent: false },
  );

test.each([
  [['q', '4', '-', 'R'], { text: 'q4-R', isSent: false }],
  [['q', '5', 'Backspace', '4', 'Enter'], { text: 'q4', isSent: true }],
  [['q', 'Enter', '4'], { text: 'q4', isSent: false }],
  [['Shift'], undefined],
  [['Escape'], undefined],
])('of the keys %j is kept: %j', (keys, kept) => {
  expect(after(...keys)).toEqual(kept);
});

test('a combination stays with the page', () => {
  const nothing = { text: '', isSent: false };
  expect(typedWith(nothing, { ...plain, key: 'r', ctrlKey: true })).toBeUndefined();
});
