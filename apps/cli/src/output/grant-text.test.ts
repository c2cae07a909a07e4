import { expect, test } from 'vitest';
import type { LeaseView, PoolView } from '../controller-api.ts';
import { poolDetails, poolUseText } from './grant-text.ts';

const LEASE = {
  namespace: 'exports',
  name: 'acme',
  phase: 'held',
  waiters: 3,
  datacenter: 'zurich',
} as LeaseView;

const aHolder = (name: string): PoolView['holders'][number] => ({
  leaseId: `id-${String(name.length)}`,
  fencingToken: `1${String(name.length)}`,
  holder: name,
  mode: 'permit',
  since: '2026-11-28T10:00:00.000Z',
  remainingMs: 12_000,
});

const POOL: PoolView = {
  kind: 'permit',
  used: 3,
  permits: 4,
  total: { used: 9, permits: 10 },
  holders: [aHolder('one'), aHolder('t\u001Bwo')],
};

const linesOf = (pool: PoolView): string[] =>
  poolDetails(LEASE, pool)
    .split('\n')
    .map((line) => line.replaceAll(/ {2,}/gu, '  ').trim());

test('a pool is shown with what is held of the key and of all keys, each holder, and how many more there are', () => {
  expect(linesOf(POOL)).toEqual([
    'lease  exports/acme',
    'phase  held',
    'held  3/4 permits',
    'of all keys  9/10 permits',
    'waiters  3',
    'datacenter  zurich',
    '',
    'HOLDER  MODE  SINCE  REMAINING  TOKEN  LEASE ID',
    'one  permit  2026-11-28T10:00:00.000Z  12.0 s  13  id-3',
    't\\u{1b}wo  permit  2026-11-28T10:00:00.000Z  12.0 s  14  id-4',
    'and 1 more',
  ]);
});

test('a pool that nobody holds has no list of holders, and without a limit of all keys nothing of it', () => {
  const shown = linesOf({ ...POOL, used: 0, total: null, holders: [] });

  expect(shown).toContain('held  0/4 permits');
  expect(shown.at(-1)).toBe('datacenter  zurich');
  expect(shown.join('\n')).not.toMatch(/of all keys|HOLDER/u);
});

test.each([
  ['shared', 2, '2 shared'],
  ['exclusive', 1, '1 alone'],
] as const)('of readers and writers it is said how they hold it: %s', (mode, used, text) => {
  const holders = [{ ...aHolder('one'), mode }];
  expect(poolUseText({ ...POOL, kind: 'shared', used, permits: null, holders })).toBe(text);
});
