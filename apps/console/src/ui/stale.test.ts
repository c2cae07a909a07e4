import { describe, expect, test } from 'vitest';
import { staleAfterMs, staleReason } from '~/ui/stale.tsx';

describe('staleReason', () => {
  test('blames the controller only when no answer came', () => {
    const unreachable = {
      code: 'network',
      message: 'The controller could not be reached.',
      details: {},
    };
    const refused = { code: 'auth.forbidden', message: 'Your role may not do this.', details: {} };
    // A controller answers this when it has lost its database.
    const lost = { ...refused, code: 'request.outcome_unknown', message: 'The database was lost.' };

    expect(staleReason(unreachable, false)).toMatch(/controller does not answer/);
    // The console's own server has two codes for a missing answer; a page has one text for both.
    for (const code of ['request.unreachable', 'request.outcome_unknown']) {
      const own = { ...unreachable, code, details: { by: 'console' } };
      expect(staleReason(own, false)).toBe(staleReason(unreachable, false));
    }
    expect(staleReason(lost, false)).toBe(
      'Could not refresh: The database was lost. (request.outcome_unknown)',
    );
    expect(staleReason(refused, false)).toBe(
      'Could not refresh: Your role may not do this. (auth.forbidden)',
    );
    expect(staleReason(null, false)).not.toMatch(/controller/);
  });

  test('says that the session has ended, whatever else has failed', () => {
    const ended = { code: 'auth.required', message: 'Sign in first.', details: {} };

    expect(staleReason(ended, false)).toMatch(/signed out/);
    expect(staleReason({ ...ended, code: 'network' }, true)).toMatch(/signed out/);
  });
});

test('data that is read seldom is not stale before it was to be read again', () => {
  for (const everyMs of [15_000, 60_000]) expect(staleAfterMs(everyMs)).toBeGreaterThan(everyMs);
  expect(staleAfterMs(2_000)).toBe(staleAfterMs());
});
