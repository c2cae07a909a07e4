import { expect, onTestFinished, test } from 'vitest';
import { createTestBrowser, signedInAdmin } from '../testing/test-browser.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';

let on: TestController;

shareTestController((shared) => {
  on = shared;
});

test('no answer may be stored, whatever the route, the caller and the outcome', async () => {
  const { secret } = await on.token('admin');
  const authorization = `Bearer ${secret}`;
  const asked: [string, RequestInit?][] = [
    ['/healthz'],
    ['/readyz'],
    ['/openapi.json'],
    ['/nothing/there'],
    ['/%zz'],
    ['/trpc/leases.list'],
    ['/export/keys.csv'],
    ['/api/auth/sign-in-options'],
    ['/api/auth/sign-in/email', { method: 'POST', body: '{}' }],
    ['/metrics', { headers: { authorization } }],
    ['/trpc/session.get', { headers: { authorization } }],
    ['/trpc/leases.list?input=%7B%7D', { headers: { authorization } }],
    ['/trpc/leases.list?input=%7B%22a%22%3A1%7D', { headers: { authorization } }],
    ['/trpc/leases.list,keys.list?batch=1&input=%7B%7D', { headers: { authorization } }],
    ['/export/keys.csv', { headers: { authorization } }],
    ['/export/nothing.csv', { headers: { authorization } }],
  ];

  for (const [path, init] of asked) {
    const answer = await fetch(`${on.url}${path}`, init);
    await answer.text();

    expect([path, answer.headers.get('cache-control')]).toEqual([path, 'no-store']);
  }
});

test('a stream may not be stored, nor changed on the way', async () => {
  const browser = await signedInAdmin(on);
  const stopping = new AbortController();
  onTestFinished(() => stopping.abort());

  const stream = await browser.openStream(stopping.signal);

  expect(stream.headers.get('cache-control')).toBe('no-store, no-transform');
});

test('every cookie behind https is of its host alone', async () => {
  const secure = await startTestController({
    signIn: { consoleOrigin: 'https://console.example.com' },
  });
  await signedInAdmin(secure);
  const browser = createTestBrowser(secure);
  const headers = { origin: 'https://console.example.com' };
  const body = { email: 'ada@example.com', password: 'correct horse battery' };

  const signedIn = await browser.request('/api/auth/sign-in/email', { body, headers });
  const known = await browser.request('/trpc/session.get', { headers });
  const signedOut = await browser.request('/api/auth/sign-out', { method: 'POST', headers });

  expect(known.status).toBe(200);
  for (const { status, setCookies } of [signedIn, signedOut]) {
    expect(status).toBe(200);
    expect(setCookies.length).toBeGreaterThan(0);
    for (const cookie of setCookies) {
      expect(cookie).toMatch(/^__Host-leasehold\.[a-z_]+=/u);
      expect(cookie).toMatch(/; path=\/(?:;|$)/iu);
      expect(cookie).toMatch(/; secure/iu);
      expect(cookie).not.toMatch(/; domain/iu);
    }
  }
});
