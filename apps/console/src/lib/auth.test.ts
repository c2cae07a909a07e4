import { expect, test, vi } from 'vitest';
import { announceSession, announceSignIn, onSignIn, stillSignedInText } from './auth.ts';

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
  for (const code of ['network', 'request.outcome_unknown', '504']) {
    expect(refused(code)).toMatch(/^You may still be signed in\. /u);
  }
  expect(refused('request.unreachable')).toMatch(/^You are still signed in\. /u);
});

test('a session that has ended, by this or before, needs no words', () => {
  expect(stillSignedInText({ outcome: 'done', data: null })).toBeUndefined();
  expect(refused('auth.required')).toBeUndefined();
});
