import { expect, onTestFinished } from 'vitest';
import { startOidcProvider, type OidcPerson, type OidcProvider } from '@leasehold/testing/oidc';
import { ORIGIN, type BrowserAnswer, type TestBrowser } from './test-browser.ts';
import type { OidcConfig } from '../sign-in/sign-in-config.ts';

/** A working identity provider, and a browser's way through it. */
export interface TestOidcProvider extends Pick<OidcProvider, 'forge'> {
  readonly config: OidcConfig;
  /**
   * Does what a person does there, from the address that the console was given to the one that the
   * provider sends back to.
   */
  signIn(url: string, login: string): Promise<URL>;
}

/** Starts one on a free port; it ends with the test. */
export async function startTestOidcProvider(options: {
  readonly consoleOrigin: string;
  readonly people: Readonly<Record<string, OidcPerson>>;
}): Promise<TestOidcProvider> {
  const provider = await startOidcProvider(options);
  onTestFinished(() => provider.close());
  const { issuer, clientId, clientSecret } = provider;
  return {
    config: { issuer, clientId, clientSecret, name: 'Test provider' },
    forge: (forgery) => provider.forge(forgery),
    signIn: (url, login) => walk(new URL(url), { issuer, login }),
  };
}

/** Begins a sign-in in this browser, and returns the address at the provider. */
export async function beginSignIn(browser: TestBrowser, callbackURL: string): Promise<string> {
  const answer = await browser.request('/api/auth/sign-in/oauth2', {
    body: { providerId: 'oidc', callbackURL },
  });
  expect(answer.status).toBe(200);
  return String(answer.body['url']);
}

/** A whole sign-in: to the provider as `login`, and back. */
export async function signInThrough(
  provider: TestOidcProvider,
  browser: TestBrowser,
  login: string,
  callbackURL = '/',
): Promise<BrowserAnswer> {
  const back = await provider.signIn(await beginSignIn(browser, callbackURL), login);
  expect(back.origin).toBe(ORIGIN);
  return browser.request(`${back.pathname}${back.search}`);
}

const STEPS_MAX = 20;

/** Follows redirects and fills in forms until the way leaves the provider. */
async function walk(
  start: URL,
  { issuer, login }: { readonly issuer: string; readonly login: string },
): Promise<URL> {
  const cookies = new Map<string, string>();
  let url = start;
  let form: URLSearchParams | undefined;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    if (url.origin !== issuer) return url;
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form === undefined ? {} : { method: 'POST', body: form }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/u.exec(line) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    const page = await response.text();
    form = undefined;
    if (location === null) form = filledIn(page, login);
    url = new URL(location ?? actionOf(page), url);
  }
  throw new Error('the identity provider goes round in circles');
}

function actionOf(page: string): string {
  const action = /action="([^"]+)"/u.exec(page)?.[1];
  if (action === undefined) throw new Error(`there is no form: ${page}`);
  return action;
}

/** Fills in the form that asks who it is, or the one that asks whether the console may know it. */
function filledIn(page: string, login: string): URLSearchParams {
  const prompt = /name="prompt" value="(\w+)"/u.exec(page)?.[1] ?? '';
  return new URLSearchParams({ prompt, login, password: 'any' });
}
