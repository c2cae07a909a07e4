import { describe, expect, test } from 'vitest';
import { phaseInput, phaseProblems } from './phase-search.ts';
import { parseSearch } from '~/lib/search/search.ts';

const search = (text: string) => parseSearch(text, ['phase', 'lease', 'holder']);
const RECENT_MS = 1_000;

describe('phaseInput', () => {
  test.each(['', 'room-', 'holder:drone-1'])(
    'a list leaves out what ended long ago where nothing is said of it: "%s"',
    (text) => {
      expect(phaseInput(search(text), RECENT_MS)).toEqual({ endedWithinMs: RECENT_MS });
    },
  );

  test.each(['phase:any', '"room-1"', '=room-1', 'lease:0198c0de-0000-7000-8000-000000000001'])(
    'and does not where it is asked for: %s',
    (text) => {
      expect(phaseInput(search(text), RECENT_MS)).toEqual({});
    },
  );

  test('a phase is asked for as it is said', () => {
    expect(phaseInput(search('phase:free'), RECENT_MS)).toEqual({ phase: 'free' });
  });
});

test('what is no phase is said, with what may be', () => {
  expect(phaseProblems(search('phase:gone'))).toEqual([
    'phase: is one of free, held, expiring, expired, any',
  ]);
  expect(phaseProblems(search('phase:any'))).toEqual([]);
});
