import type { Forgery } from '@leasehold/testing/oidc';
import { describe, expect, test } from 'vitest';
import {
  createTestBrowser,
  ORIGIN,
  outcomeOf,
  signedInAdmin,
  type BrowserAnswer,
  type TestBrowser,
} from '../testing/test-browser.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import {
  beginSignIn,
  signInThrough,
  startTestOidcProvider,
  type TestOidcProvider,
} from '../testing/test-oidc-provider.ts';

interface Stage {
  readonly on: TestController;
  readonly provider: TestOidcProvider;
  readonly admin: TestBrowser;
  invite(email: string): Promise<{ personId: string; path: string }>;
}

async function aStage(): Promise<Stage> {
  const provider = await startTestOidcProvider({
    consoleOrigin: ORIGIN,
    people: {
      bob: { email: 'Bob@Example.com', isVerified: true },
      bobTheSecond: { email: 'bob@example.com', isVerified: true },
      mallory: { email: 'bob@example.com', isVerified: false },
      eve: { email: 'eve@example.com', isVerified: true },
    },
  });
  const on = await startTestController({ signIn: { oidc: provider.config } });
  const admin = await signedInAdmin(on);
  return {
    on,
    provider,
    admin,
    async invite(email) {
      const made = (await admin.mutate('people.invite', { email, role: 'operator' })) as {
        path: string;
        person: { personId: string };
      };
      return { personId: made.person.personId, path: made.path };
    },
  };
}

const KEYS_PAGE = '/keys?phase=held';

/** Each with one thing that is wrong. */
const FORGERIES: readonly Forgery[] = [
  { claims: { nonce: 'of another sign-in' } },
  { claims: { nonce: undefined } },
  { claims: { iss: 'https://other.example.com' } },
  { claims: { aud: 'another' } },
  { claims: { exp: 1 } },
  { signedBy: 'another' },
  { signedBy: 'nobody' },
];

const signIn = (stage: Stage, browser: TestBrowser, login: string): Promise<BrowserAnswer> =>
  signInThrough(stage.provider, browser, login, KEYS_PAGE);

describe('sign-in with an identity provider', () => {
  test('lets in a person who is invited under their verified address, also the next time', async () => {
    const stage = await aStage();
    const { personId, path } = await stage.invite('bob@example.com');
    const browser = createTestBrowser(stage.on);

    const answer = await signIn(stage, browser, 'bob');

    expect(answer).toMatchObject({ status: 302, location: '/keys?phase=held' });
    expect(await browser.query('session.get')).toMatchObject({
      role: 'operator',
      person: { personId, email: 'bob@example.com', signInMethods: ['oidc'] },
    });
    const again = createTestBrowser(stage.on);
    expect((await signIn(stage, again, 'bob')).location).toBe('/keys?phase=held');
    expect(await stage.admin.query('people.list')).toMatchObject({
      items: [{ personId, status: 'active', signInMethods: ['oidc'], sessionCount: 2 }, {}],
    });
    const late = await again.request('/api/auth/accept-invitation', {
      body: { invitation: path.split('=')[1], password: 'a password of mine' },
    });
    expect(late.body['code']).toBe('INVALID_INVITATION');
  });

  test('keeps no token of the provider', async () => {
    const stage = await aStage();
    await stage.invite('bob@example.com');

    await signIn(stage, createTestBrowser(stage.on), 'bob');

    expect(
      await stage.on.controller.store.general.$queryRaw`
        select a.access_token, a.refresh_token, a.id_token, a.password
        from person_account a where a.provider_id = 'oidc'`,
    ).toEqual([{ access_token: null, refresh_token: null, id_token: null, password: null }]);
  });

  test.each([
    { who: 'who is not invited', login: 'eve', error: 'not_invited' },
    { who: 'whose address is not verified', login: 'mallory', error: 'email_not_verified' },
  ])('refuses a person $who, and shows it on the sign-in page', async ({ login, error }) => {
    const stage = await aStage();
    await stage.invite('bob@example.com');
    const browser = createTestBrowser(stage.on);

    const answer = await signIn(stage, browser, login);

    expect(answer).toMatchObject({ status: 302, location: `/sign-in?error=${error}` });
    expect(await browser.query('session.get')).toBe('auth.required');
    const people = (await stage.admin.query('people.list')) as { items: unknown[] };
    expect(people.items).toHaveLength(2);
  });

  test('recognizes a person by their account there, not by an address that was given to another', async () => {
    const stage = await aStage();
    const { personId } = await stage.invite('bob@example.com');
    await signIn(stage, createTestBrowser(stage.on), 'bob');
    const browser = createTestBrowser(stage.on);

    const answer = await signIn(stage, browser, 'bobTheSecond');

    expect(answer).toMatchObject({ status: 302, location: '/sign-in?error=account_linked' });
    expect(await browser.query('session.get')).toBe('auth.required');
    expect(await stage.admin.query('audit.list', { action: 'people.linkAccount' })).toMatchObject({
      items: [
        {
          actor: 'bob@example.com',
          resource: `person:${personId}`,
          detail: { provider: 'oidc', subject: expect.any(String) as string },
        },
      ],
    });
  });

  test('a subject of another issuer is somebody else, and the same verified address is the same person', async () => {
    const stage = await aStage();
    const { general } = stage.on.controller.store;
    const { personId } = await stage.invite('bob@example.com');
    await signIn(stage, createTestBrowser(stage.on), 'bob');
    // Before the issuer was changed, Bob had the subject that Eve has now.
    await general.$queryRaw`
      update person_account set account_id = 'https://former.example.com eve'
      where provider_id = 'oidc' returning id::text`;
    const browsers = [createTestBrowser(stage.on), createTestBrowser(stage.on)] as const;

    const stranger = await signIn(stage, browsers[0], 'eve');
    const bob = await signIn(stage, browsers[1], 'bob');

    expect(stranger.location).toBe('/sign-in?error=not_invited');
    expect(await browsers[0].query('session.get')).toBe('auth.required');
    expect(bob.location).toBe('/keys?phase=held');
    expect(await browsers[1].query('session.get')).toMatchObject({ person: { personId } });
    expect(
      await general.$queryRaw`
        select a.account_id as "accountId" from person_account a where a.provider_id = 'oidc'`,
    ).toEqual([{ accountId: `${stage.provider.config.issuer} bob` }]);
  });

  test('refuses a person who is disabled, although they have signed in before', async () => {
    const stage = await aStage();
    const { personId } = await stage.invite('bob@example.com');
    await signIn(stage, createTestBrowser(stage.on), 'bob');
    await stage.admin.mutate('people.disable', { personId });
    const browser = createTestBrowser(stage.on);

    const answer = await signIn(stage, browser, 'bob');

    expect(answer.location).toBe('/sign-in?error=not_invited');
    expect(await browser.query('session.get')).toBe('auth.required');
  });

  test('refuses a reply of the provider to a request that this browser has not made', async () => {
    const stage = await aStage();
    await stage.invite('bob@example.com');
    const asked = createTestBrowser(stage.on);
    const back = await stage.provider.signIn(await beginSignIn(asked, KEYS_PAGE), 'bob');
    const other = createTestBrowser(stage.on);

    const stolen = await other.request(`${back.pathname}${back.search}`);
    back.searchParams.set('state', 'made-up-state-of-nobody-at-all-00');
    const madeUp = await asked.request(`${back.pathname}${back.search}`);

    for (const answer of [stolen, madeUp]) {
      expect(answer).toMatchObject({ status: 302, location: '/sign-in?error=state_mismatch' });
    }
    expect(await other.query('session.get')).toBe('auth.required');
  });

  test.each(FORGERIES)(
    'lets nobody in with an id_token that is not of the provider, or for another sign-in or client: %j',
    async (forgery) => {
      const stage = await aStage();
      await stage.invite('bob@example.com');
      const browser = createTestBrowser(stage.on);
      stage.provider.forge(forgery);

      const { location } = await signIn(stage, browser, 'bob');

      expect(location).toBe('/sign-in?error=oidc_failed');
      expect(await browser.query('session.get')).toBe('auth.required');
      // All else about it is right.
      stage.provider.forge({});
      expect((await signIn(stage, browser, 'bob')).location).toBe(KEYS_PAGE);
    },
  );

  test('sends nobody to another site afterwards', async () => {
    const stage = await aStage();
    const browser = createTestBrowser(stage.on);

    for (const callbackURL of [
      'https://evil.example.com/',
      '//evil.example.com',
      '/\\evil.example.com',
      '/.//evil.example.com',
      '/a/..//evil.example.com',
    ]) {
      const answer = await browser.request('/api/auth/sign-in/oauth2', {
        body: { providerId: 'oidc', callbackURL },
      });
      expect(answer).toMatchObject({ status: 400, body: { code: 'request.invalid' } });
    }
  });

  test('keeps out nobody with a password while the provider is unreachable', async () => {
    const oidc = {
      issuer: 'http://127.0.0.1:9',
      clientId: 'a',
      clientSecret: 'b',
      name: 'Nobody there',
    };
    const on = await startTestController({ signIn: { oidc } });
    const admin = await signedInAdmin(on);

    const answer = await admin.request('/api/auth/sign-in/oauth2', {
      body: { providerId: 'oidc', callbackURL: '/' },
    });

    expect(answer).toMatchObject({ status: 503, body: { code: 'OIDC_UNREACHABLE' } });
    expect(outcomeOf(await admin.request('/trpc/session.get'))).toMatchObject({ role: 'admin' });
    expect((await admin.request('/api/auth/sign-in-options')).body).toEqual({
      password: true,
      oidc: { name: 'Nobody there' },
    });
  });
});
