import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import {
  grantListInput,
  grantSearchProblems,
  phaseInput,
  phaseProblems,
  searchWhyNot,
} from './grant-search.ts';

const search = (text: string) => parseSearch(text, ['holder', 'phase', 'lease']);
const asked = (text: string) =>
  grantListInput({ search: search(text), sort: 'name', direction: 'asc', after: null });

test('the request contains what the address asks for', () => {
  expect(asked('settlement- holder:pay-1 phase:held')).toMatchObject({
    contains: 'settlement-',
    holder: 'pay-1',
    phase: 'held',
  });
  expect(asked('phase:nonsense')).not.toHaveProperty('phase');
});

test('a name in quotes is a whole name, and a grant is found by its id', () => {
  expect(asked('"settlement-eu"')).toMatchObject({ name: 'settlement-eu' });
  const leaseId = '0198c0de-0000-7000-8000-000000000001';
  expect(asked(`lease:${leaseId}`)).toMatchObject({ leaseId });
});

test('a value that no grant can have is reported, with the allowed values', () => {
  expect(grantSearchProblems(search('phase:nonsense lease:b39f'))).toEqual([
    'phase: is one of free, held, expiring, expired, any',
    'lease: needs a whole lease id',
  ]);
  expect(
    grantSearchProblems(search('phase:held lease:b39f7a4a-0d2c-4a55-9f6a-6b8d7c1a2f30')),
  ).toEqual([]);
});

test('nothing is done with all that a search finds while a part of it is wrong', () => {
  expect(searchWhyNot(grantSearchProblems(search('holder:pay-1 phase:nonsense')))).toBe(
    'Correct the search first: phase: is one of free, held, expiring, expired, any.',
  );
  expect(searchWhyNot(grantSearchProblems(search('holder:pay-1 phase:held')))).toBeUndefined();
});

test('the rows that the overview counts can be listed, however long ago they were granted', () => {
  const known = ['phase', 'is', 'own'];
  const input = (text: string) => {
    const parsed = parseSearch(text, known);
    return grantListInput({ search: parsed, sort: 'name', direction: 'asc', after: null });
  };

  expect(input('is:waited')).toMatchObject({ is: 'waited', endedWithinMs: undefined });
  expect(input('phase:held own:no')).toMatchObject({ phase: 'held', withoutOwn: true });
  expect(grantSearchProblems(parseSearch('is:late own:yes', known))).toEqual([
    'is: is one of waited, overdue',
    'own: is no, or left out',
  ]);
});

const phaseSearch = (text: string) => parseSearch(text, ['holder', 'phase', 'lease']);
const RECENT_MS = 1_000;

describe('phaseInput', () => {
  test.each(['', 'room-', 'holder:drone-1'])(
    'leaves out what ended long ago unless the search asks for it: "%s"',
    (text) => {
      expect(phaseInput(phaseSearch(text), RECENT_MS)).toEqual({ endedWithinMs: RECENT_MS });
    },
  );

  test.each(['phase:any', '"room-1"', '=room-1', 'lease:0198c0de-0000-7000-8000-000000000001'])(
    'keeps what ended long ago if the search asks for it: %s',
    (text) => {
      expect(phaseInput(phaseSearch(text), RECENT_MS)).toEqual({});
    },
  );

  test('asks for the phase that the search names', () => {
    expect(phaseInput(phaseSearch('phase:free'), RECENT_MS)).toEqual({ phase: 'free' });
  });
});

test('an unknown phase is reported, with the allowed ones', () => {
  expect(phaseProblems(phaseSearch('phase:gone'))).toEqual([
    'phase: is one of free, held, expiring, expired, any',
  ]);
  expect(phaseProblems(phaseSearch('phase:any'))).toEqual([]);
});
