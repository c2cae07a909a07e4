import { describe, expect, test } from 'vitest';
import { problemOf } from '~/lib/auth.ts';
import type { AuthRefusal } from '~/lib/auth.ts';
import {
  linkHeading,
  passwordProblem,
  providerErrorText,
  safePath,
  untilText,
} from './sign-in-texts.ts';

function refusal(change: Partial<AuthRefusal>): AuthRefusal {
  return {
    outcome: 'refused',
    code: 'X',
    message: 'As the controller says it.',
    details: {},
    answeredAtMs: Date.parse('2026-11-21T14:00:00Z'),
    ...change,
  };
}

describe('problemOf', () => {
  test('counts a lock-out from the time of the answer, not by this machine’s clock', () => {
    const details = { lockedUntil: '2026-11-21T14:14:30.000Z' };

    const problem = problemOf(refusal({ code: 'ACCOUNT_LOCKED', details }));

    expect(problem.until).toEqual({ at: details.lockedUntil, inMs: 870_000 });
  });

  test('does not reveal whether the person exists', () => {
    const texts = ['INVALID_EMAIL_OR_PASSWORD', 'ACCOUNT_LOCKED'].map(
      (code) => problemOf(refusal({ code })).text,
    );

    for (const text of texts) expect(text).not.toMatch(/unknown|no such|not exist|your account/iu);
  });

  test('shows the message and the incident of a failure that it has no text for', () => {
    const problem = problemOf(
      refusal({ code: 'store.unavailable', details: { incidentId: 'i-1' } }),
    );

    expect(problem).toEqual({ text: 'As the controller says it.', incidentId: 'i-1' });
  });
});

describe('untilText', () => {
  test('never shows a negative time', () => {
    expect(untilText('2026-11-21T14:14:30.000Z', 62_000)).toBe(
      'Try again in 1 min 2 s, at 2026-11-21 14:14:30 UTC.',
    );
    expect(untilText('2026-11-21T14:14:30.000Z', -1)).toBe('You can try again now.');
    expect(untilText('2026-11-21T14:14:30.000Z', null)).toBe(
      'Try again at 2026-11-21 14:14:30 UTC.',
    );
  });
});

describe('providerErrorText', () => {
  test('tells somebody without an invitation whom to ask', () => {
    expect(providerErrorText('not_invited')).toContain('administrator');
  });

  test('has a general text for unknown errors, and no text without an error', () => {
    expect(providerErrorText('anything')).toBe(providerErrorText('oidc_failed'));
    expect(providerErrorText(undefined)).toBeUndefined();
  });
});

describe('linkHeading', () => {
  test('tells a person who has joined that the old password and sessions end', () => {
    expect(linkHeading(true).title).toBe('Choose a new password');
    expect(linkHeading(true).text).toContain('ends your sessions');
    expect(linkHeading(false).title).toBe('Accept your invitation');
  });
});

describe('passwordProblem', () => {
  test('accepts 12 to 128 characters and says how many are missing', () => {
    expect(passwordProblem('a'.repeat(11))).toContain('1 more needed');
    expect(passwordProblem('a'.repeat(12))).toBeUndefined();
    expect(passwordProblem('a'.repeat(128))).toBeUndefined();
    expect(passwordProblem('a'.repeat(129))).toBe('At most 128 characters.');
  });
});

describe('safePath', () => {
  test('keeps a path of the console, with its query and fragment', () => {
    expect(safePath('/keys/detail?namespace=rooms.eu&name=a%2Fb#ladder')).toBe(
      '/keys/detail?namespace=rooms.eu&name=a%2Fb#ladder',
    );
    expect(safePath('/keys?q=ü x')).toBe('/keys?q=%C3%BC%20x');
  });

  test.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '/\t/evil.example/',
    '/.//evil.example',
    'javascript:alert(1)',
    'keys',
    '',
    null,
    undefined,
  ])('replaces anything else with the start page: %s', (next) => {
    expect(safePath(next)).toBe('/');
  });

  test('does not lead back to the sign-in page', () => {
    expect(safePath('/sign-in?next=/sign-in')).toBe('/');
  });
});
