import { expect, test } from 'vitest';
import { askAgainMs, isSurelyEmpty } from './states.tsx';

test('what is read once is asked for again after a silent datacenter, and not after a whole answer', () => {
  expect(
    askAgainMs({ unreachable: [{ datacenter: 'dc2', since: null, code: null }] }),
  ).toBeGreaterThan(0);
  expect(askAgainMs({ unreachable: [] })).toBe(false);
  expect(askAgainMs(undefined)).toBe(false);
});

test('a page without rows is not surely empty while a datacenter that was asked is silent', () => {
  const silent = [{ datacenter: 'dc2', since: null, code: null }];
  expect(isSurelyEmpty({ items: [], unreachable: [] })).toBe(true);
  expect(isSurelyEmpty({ items: [], unreachable: silent })).toBe(false);
  expect(isSurelyEmpty({ items: ['row'], unreachable: silent })).toBe(false);
});
