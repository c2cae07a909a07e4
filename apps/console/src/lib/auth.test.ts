import { expect, test, vi } from 'vitest';
import {
  announceSession,
  announceSignIn,
  type AuthRefusal,
  onSignIn,
  passwordChangeProblem,
  stillOpenText,
  stillSignedInText,
} from './auth.ts';

test('each session is announced once, so that tabs do not answer each other without end', async () => {
  const heard: (string | null)[] = [];
  const end = onSignIn((csrfToken) => heard.push(csrfToken));
  announceSession('first');
  announceSession('first');
  announceSession('second');
  // Of a sign-in whose session is not known yet.
  announceSignIn();

  await vi.waitFor(() => expect(heard).toContain(null), { timeout: 30_000 });
  end();
  expect(heard).toEqual(['first', 'second', null]);
});

const refusalOf = (code: string): AuthRefusal => ({
  outcome: 'refused',
  code,
  message: 'Not now.',
  details: { incidentId: 'i-1' },
  answeredAtMs: null,
});

const refused = (code: string) => stillSignedInText(refusalOf(code));
const UNKNOWN = ['network', 'request.outcome_unknown', 'request.deadline', '504'];

test('a sign-out that was refused says that the session goes on', () => {
  expect(refused('request.overloaded')).toBe('You are still signed in: Not now.');
});

test('a sign-out whose answer was lost does not claim to know', () => {
  for (const code of UNKNOWN) {
    expect(refused(code)).toMatch(/^You may still be signed in\. /u);
  }
  expect(refused('request.unreachable')).toMatch(/^You are still signed in\. /u);
});

test('a session that has ended, by this or before, needs no words', () => {
  expect(stillSignedInText({ outcome: 'done', data: null })).toBeUndefined();
  expect(refused('auth.required')).toBeUndefined();
});

test('a change of the password whose answer was lost may have been made, and is not simply to be repeated', () => {
  for (const code of UNKNOWN) {
    const { text, incidentId } = passwordChangeProblem(refusalOf(code));
    expect(text).toMatch(/may have been changed.* the new one is in force/u);
    expect(text).not.toContain('Try again');
    expect(incidentId).toBe('i-1');
  }
  expect(passwordChangeProblem(refusalOf('INVALID_PASSWORD')).text).toBe(
    'The current password is wrong. If you have just changed it, the new one is in force.',
  );
  expect(passwordChangeProblem(refusalOf('request.overloaded')).text).toBe('Not now.');
});

test('an end of all sessions whose answer was lost may have been carried out', () => {
  for (const code of UNKNOWN) {
    expect(stillOpenText(refusalOf(code))).toMatch(/^Your sessions may have ended\. /u);
  }
  expect(stillOpenText(refusalOf('request.unreachable'))).toBe('Not now.');
});
