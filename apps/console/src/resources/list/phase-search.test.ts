import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import { phaseInput, phaseProblems } from './phase-search.ts';

const search = (text: string) => parseSearch(text, ['phase', 'lease', 'holder']);
const RECENT_MS = 1_000;

describe('phaseInput', () => {
  test.each(['', 'room-', 'holder:drone-1'])(
    'leaves out what ended long ago unless the search asks for it: "%s"',
    (text) => {
      expect(phaseInput(search(text), RECENT_MS)).toEqual({ endedWithinMs: RECENT_MS });
    },
  );

  test.each(['phase:any', '"room-1"', '=room-1', 'lease:0198c0de-0000-7000-8000-000000000001'])(
    'keeps what ended long ago if the search asks for it: %s',
    (text) => {
      expect(phaseInput(search(text), RECENT_MS)).toEqual({});
    },
  );

  test('asks for the phase that the search names', () => {
    expect(phaseInput(search('phase:free'), RECENT_MS)).toEqual({ phase: 'free' });
  });
});

test('an unknown phase is reported, with the allowed ones', () => {
  expect(phaseProblems(search('phase:gone'))).toEqual([
    'phase: is one of free, held, expiring, expired, any',
  ]);
  expect(phaseProblems(search('phase:any'))).toEqual([]);
});
