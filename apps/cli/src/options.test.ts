import { describe, expect, test } from 'vitest';
import { nothingText, RECENT_ENVIRONMENTS, RECENT_GRANTS, recentFilter } from './options.ts';

const HOUR_MS = 3_600_000;

describe('recentFilter', () => {
  test('leaves out what ended long ago: keys and leases after an hour, environments after a week', () => {
    expect(recentFilter({}, RECENT_GRANTS)).toEqual({ endedWithinMs: HOUR_MS });
    expect(recentFilter({}, RECENT_ENVIRONMENTS)).toEqual({ endedWithinMs: 7 * 24 * HOUR_MS });
  });

  test.each([{ all: true }, { phase: 'free' }, { name: 'demo' }])(
    'leaves nothing out when all, a phase or a name is requested: %j',
    (options) => {
      expect(recentFilter(options, RECENT_GRANTS)).toEqual({});
    },
  );
});

test('an empty list says what it left out, and how to see it', () => {
  expect(nothingText('keys', {}, RECENT_GRANTS)).toContain('--all');
  expect(nothingText('keys', { all: true }, RECENT_GRANTS)).toBe('No keys.');
});
