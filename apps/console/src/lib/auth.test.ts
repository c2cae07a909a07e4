import { expect, test, vi } from 'vitest';
import { announceSession, announceSignIn, onSignIn } from './auth.ts';

test('each session is announced once, so that tabs do not answer each other for ever', async () => {
  const heard: (string | null)[] = [];
  const end = onSignIn((csrfToken) => heard.push(csrfToken));
  announceSession('first');
  announceSession('first');
  announceSession('second');
  // Of a sign-in whose session is not known yet.
  announceSignIn();

  await vi.waitFor(() => expect(heard).toContain(null));
  end();
  expect(heard).toEqual(['first', 'second', null]);
});
