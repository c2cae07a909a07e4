import { describe, expect, test } from 'vitest';
import { staleAfterMs, staleReason } from '~/ui/stale.tsx';

describe('staleReason', () => {
  test('blames the controller only when no answer came', () => {
    const unreachable = { code: 'network', message: 'The controller could not be reached.' };
    const refused = { code: 'auth.forbidden', message: 'Your role may not do this.' };

    expect(staleReason(unreachable, false)).toMatch(/controller does not answer/);
    // The console's own server has two codes for a missing answer; a page has one text for both.
    for (const code of ['request.unreachable', 'request.outcome_unknown']) {
      expect(staleReason({ ...unreachable, code }, false)).toBe(staleReason(unreachable, false));
    }
    expect(staleReason(refused, false)).toBe(
      'Could not refresh: Your role may not do this. (auth.forbidden)',
    );
    expect(staleReason(null, false)).not.toMatch(/controller/);
  });

  test('says that the session has ended, whatever else has failed', () => {
    const ended = { code: 'auth.required', message: 'Sign in first.' };

    expect(staleReason(ended, false)).toMatch(/signed out/);
    expect(staleReason({ code: 'network', message: '' }, true)).toMatch(/signed out/);
  });
});

test('data that is read seldom is not stale before it was to be read again', () => {
  for (const everyMs of [15_000, 60_000]) expect(staleAfterMs(everyMs)).toBeGreaterThan(everyMs);
  expect(staleAfterMs(2_000)).toBe(staleAfterMs());
});
