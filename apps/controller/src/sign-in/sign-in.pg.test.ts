import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { makeAdmin } from '@leasehold/keys-core/access';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import {
  anEmail,
  createTestBrowser,
  ORIGIN,
  outcomeOf,
  PASSWORD,
  signedInAdmin,
} from '../testing/test-browser.ts';

const COOKIE = 'leasehold.session_token';

/** Each test has people of its own. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

describe('sign-in', () => {
  test('opens a session that the API knows, in a cookie that no script and no other site can use', async () => {
    const id = randomUUID();
    const email = `ada-${id}@example.com`;
    await makeAdmin(on.controller.store, { email, password: PASSWORD });
    const browser = createTestBrowser(on);

    const answer = await browser.signIn(`Ada-${id}@Example.com`, PASSWORD);

    expect(answer.status).toBe(200);
    const [cookie = ''] = answer.setCookies;
    expect(cookie).toMatch(/^leasehold\.session_token=/u);
    expect(cookie).toMatch(/; HttpOnly/iu);
    expect(cookie).toMatch(/; SameSite=Lax/iu);
    expect(cookie).not.toMatch(/; Secure/iu);
    expect(JSON.stringify(answer.body)).not.toContain(cookie.split(/[=.]/u)[2] ?? cookie);
    expect(await browser.query('session.get')).toMatchObject({
      actor: email,
      role: 'admin',
      person: { email },
      csrfToken: expect.stringMatching(/^[\w-]{43}$/u) as string,
    });
  });

  test('leaves no storage behind that would slow down every promise of the controller', async () => {
    const uses = vi.spyOn(AsyncLocalStorage.prototype, 'run');
    const ends = vi.spyOn(AsyncLocalStorage.prototype, 'disable');
    const alone = await startTestController();
    const browser = await signedInAdmin(alone);

    await Promise.all([
      browser.query('session.get'),
      browser.signIn('nobody@example.com', PASSWORD),
    ]);

    const used = [...new Set(uses.mock.contexts)];
    const lastOf = ({ mock }: typeof uses | typeof ends, storage: unknown): number =>
      Math.max(...mock.invocationCallOrder.filter((_, call) => mock.contexts[call] === storage));
    expect(used.length).toBeGreaterThan(1);
    expect(used.filter((storage) => lastOf(ends, storage) < lastOf(uses, storage))).toEqual([]);
  });

  test('behind https the cookie is sent only over https', async () => {
    const consoleOrigin = 'https://console.example.com';
    const alone = await startTestController({ signIn: { consoleOrigin } });
    await makeAdmin(alone.controller.store, { email: 'ada@example.com', password: PASSWORD });

    const answer = await createTestBrowser(alone).request('/api/auth/sign-in/email', {
      body: { email: 'ada@example.com', password: PASSWORD },
      headers: { origin: consoleOrigin },
    });

    expect(answer.setCookies[0]).toMatch(/^__Host-leasehold\.session_token=.*; Secure/iu);
  });

  test('answers the same to a wrong password and to an unknown address', async () => {
    const email = anEmail();
    await makeAdmin(on.controller.store, { email, password: PASSWORD });
    const browser = createTestBrowser(on);

    const wrong = await browser.signIn(email, 'not the password');
    const nobody = await browser.signIn(anEmail(), 'not the password');

    expect(wrong).toMatchObject({ status: 401, body: { code: 'INVALID_EMAIL_OR_PASSWORD' } });
    expect(nobody).toEqual(wrong);
    expect(wrong.setCookies).toEqual([]);
  });

  test('has only the documented endpoints, and nobody can sign up', async () => {
    const browser = createTestBrowser(on);
    const person = { email: anEmail(), password: PASSWORD, name: 'Eve' };

    const answers = await Promise.all([
      browser.request('/api/auth/sign-up/email', { body: person }),
      browser.request('/api/auth/sign-in/social', { body: { provider: 'oidc' } }),
      browser.request('/api/auth/get-session'),
      browser.request('/api/auth/update-user', { body: { name: 'x' } }),
      browser.request('/api/auth/sign-in/oauth2', { body: { providerId: 'oidc' } }),
    ]);

    expect(answers.map((answer) => answer.status)).toEqual([404, 404, 404, 404, 404]);
    expect((await browser.request('/api/auth/sign-in-options')).body).toEqual({
      password: true,
      oidc: null,
    });
  });

  test('names the field that is wrong, and accepts no form of another site', async () => {
    const browser = createTestBrowser(on);

    const noPassword = await browser.request('/api/auth/sign-in/email', {
      body: { email: 'ada@example.com' },
    });
    const form = await fetch(`${on.url}/api/auth/sign-in/email`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: '{"email":"ada@example.com","password":"x"}',
    });

    expect(noPassword).toMatchObject({ status: 400, body: { code: 'request.invalid' } });
    expect(noPassword.body['message']).toMatch(/^password: /u);
    expect(form.status).toBe(400);
  });
});

describe('a change made with a cookie', () => {
  test('needs the token of its session; reading needs none', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const other = await signedInAdmin(on, anEmail());
    const email = anEmail();
    const invite = (csrf?: string): Promise<unknown> =>
      browser
        .request('/trpc/people.invite', {
          body: { email, role: 'viewer' },
          headers: csrf === undefined ? {} : { 'x-leasehold-csrf': csrf },
        })
        .then(outcomeOf);
    const tokenOf = async (of: typeof browser): Promise<string> =>
      ((await of.query('session.get')) as { csrfToken: string }).csrfToken;

    expect(await invite()).toBe('auth.csrf');
    expect(await invite(await tokenOf(other))).toBe('auth.csrf');
    expect(await invite(await tokenOf(browser))).toMatchObject({ person: { status: 'invited' } });
    expect(await browser.query('people.list')).toMatchObject({ items: expect.any(Array) as [] });
  });

  test('is refused from another origin, and so is reading', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const from = async (origin: string): Promise<unknown> =>
      outcomeOf(await browser.request('/trpc/people.list', { headers: { origin } }));

    expect(await from('https://evil.example.com')).toBe('auth.csrf');
    expect(await from('null')).toBe('auth.csrf');
    expect(await from('http://127.0.0.1:4601')).toMatchObject({ items: expect.any(Array) as [] });
    const signOut = await browser.request('/api/auth/sign-out', {
      body: {},
      headers: { origin: 'https://evil.example.com' },
    });
    expect(signOut).toMatchObject({ status: 403, body: { code: 'INVALID_ORIGIN' } });
    expect(await browser.query('session.get')).toMatchObject({ role: 'admin' });
  });

  test('a token of a program takes precedence over the cookie, and needs no token of a session', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const { secret } = await on.token('viewer');
    const headers = { authorization: `Bearer ${secret}`, origin: 'https://evil.example.com' };

    const session = outcomeOf(await browser.request('/trpc/session.get', { headers }));
    const invite = await browser.request('/trpc/people.invite', {
      body: { email: anEmail(), role: 'viewer' },
      headers,
    });

    expect(session).toMatchObject({ role: 'viewer', person: null, csrfToken: null });
    expect(outcomeOf(invite)).toBe('auth.forbidden');
  });
});

describe('a cookie', () => {
  test('that is not signed with our secret is ignored, and costs no statement', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const [token = '', signature = ''] = decodeURIComponent(
      browser.cookies.get(COOKIE) ?? '',
    ).split('.');

    const forged = createTestBrowser(on);
    forged.cookies.set(COOKIE, encodeURIComponent(`${token}.${signature.replace(/^./u, '_')}`));

    expect(await forged.query('session.get')).toBe('auth.required');
    expect(await browser.query('session.get')).toMatchObject({ role: 'admin' });
  });

  test('means nothing to a WebSocket', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const { WebSocket } = await import('ws');
    const socket = new WebSocket(`${on.url.replace('http', 'ws')}/trpc`, {
      headers: { cookie: `${COOKIE}=${browser.cookies.get(COOKIE) ?? ''}`, origin: ORIGIN },
    });
    const answer = new Promise<string>((resolve, reject) => {
      socket.on('message', (data: Buffer) => resolve(data.toString()));
      socket.on('error', reject);
    });
    socket.on('open', () => {
      socket.send(JSON.stringify({ id: 1, method: 'query', params: { path: 'session.get' } }));
    });

    expect(await answer).toContain('auth.required');
    socket.terminate();
  });
});
