import { expect, test } from 'vitest';
import { stillSignedInText } from './auth-problems.ts';

const refused = (code: string) =>
  stillSignedInText({
    outcome: 'refused',
    code,
    message: 'Not now.',
    details: {},
    answeredAtMs: null,
  });

test('a sign-out that was refused says that the session goes on', () => {
  expect(refused('request.overloaded')).toBe('You are still signed in: Not now.');
});

test('a sign-out whose answer was lost does not claim to know', () => {
  expect(refused('network')).toMatch(/^You may still be signed in: /u);
  expect(refused('request.outcome_unknown')).toMatch(/^You may still be signed in: /u);
});

test('a session that has ended, by this or before, needs no words', () => {
  expect(stillSignedInText({ outcome: 'done', data: null })).toBeUndefined();
  expect(refused('auth.required')).toBeUndefined();
});
