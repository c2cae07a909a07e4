import type { OidcPerson } from '@leasehold/testing/oidc';
import { describe, expect, test } from 'vitest';
import {
  createTestBrowser,
  ORIGIN,
  outcomeOf,
  signedInAdmin,
  type TestBrowser,
} from '../testing/test-browser.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import {
  signInThrough,
  startTestOidcProvider,
  type TestOidcProvider,
} from '../testing/test-oidc-provider.ts';
import { groupRulesOf } from './group-roles.ts';

interface Stage {
  readonly on: TestController;
  readonly provider: TestOidcProvider;
  readonly admin: TestBrowser;
  /** Who is at the provider: tests put people into groups there. */
  readonly people: Record<string, OidcPerson>;
  readonly join: (...groups: string[]) => void;
}

async function aStage(
  rules: string,
  options: { claim?: string; isVerified?: boolean } = {},
): Promise<Stage> {
  const { claim = 'groups', isVerified = true } = options;
  const bob = { email: 'Bob@Example.com', isVerified };
  const people: Record<string, OidcPerson> = { bob: { ...bob, groups: [] } };
  const provider = await startTestOidcProvider({ consoleOrigin: ORIGIN, people });
  const groups = { claim, rules: groupRulesOf(rules) };
  const oidc = { ...provider.config, scopes: ['groups'], groups };
  const on = await startTestController({ signIn: { oidc } });
  return {
    on,
    provider,
    people,
    admin: await signedInAdmin(on),
    join: (...joined) => {
      people['bob'] = { ...bob, groups: joined };
    },
  };
}

const RULES = 'sre=admin,ops=operator,eu=operator@games.eu';

async function enter(stage: Stage): Promise<{ browser: TestBrowser; location: string | null }> {
  const browser = createTestBrowser(stage.on);
  const { location } = await signInThrough(stage.provider, browser, 'bob');
  return { browser, location };
}

test('members of a group come in without an invitation, with its role, and the audit has both', async () => {
  const stage = await aStage(RULES);
  stage.join('others', 'ops');

  const { browser, location } = await enter(stage);

  expect(location).toBe('/');
  expect(await browser.query('session.get')).toMatchObject({
    role: 'operator',
    namespaces: null,
    person: { email: 'bob@example.com', signInMethods: ['oidc'] },
  });
  expect(await stage.admin.query('people.list')).toMatchObject({
    items: [{ email: 'bob@example.com', role: 'operator', status: 'active' }, {}],
  });
  expect(await stage.admin.query('audit.list', { action: 'people.add' })).toMatchObject({
    items: [{ actor: 'identity provider', detail: { email: 'bob@example.com', role: 'operator' } }],
  });
});

test('each sign-in brings the role up to date, in open sessions too', async () => {
  const stage = await aStage(RULES);
  stage.join('sre');
  const first = await enter(stage);
  expect(await first.browser.query('session.get')).toMatchObject({ role: 'admin' });

  stage.join('eu');
  const second = await enter(stage);

  for (const { browser } of [first, second]) {
    expect(await browser.query('session.get')).toMatchObject({
      role: 'operator',
      namespaces: ['games.eu'],
    });
  }
  expect(await stage.admin.query('audit.list', { action: 'people.setRole' })).toMatchObject({
    items: [{ actor: 'identity provider', detail: { role: 'operator', namespaces: ['games.eu'] } }],
  });
  // Nothing changed, so nothing more is in the audit.
  await enter(stage);
  const again = (await stage.admin.query('audit.list', { action: 'people.setRole' })) as {
    items: unknown[];
  };
  expect(again.items).toHaveLength(1);
});

test('a person who is limited to namespaces reaches no other one', async () => {
  const stage = await aStage(RULES);
  stage.join('eu');
  const { browser } = await enter(stage);
  const lease = { key: 'a', ttlMs: 30_000, localTimeMs: 0, holder: 'bob', comment: '' };
  const acquire = (namespace: string[]) =>
    browser.mutate('leases.acquire', { namespace, ...lease });

  expect(await acquire(['games', 'us'])).toBe('auth.forbidden');
  expect(await acquire(['games', 'eu', 'x'])).toMatchObject({ outcome: 'granted' });
  expect(await browser.query('stats.overview')).toBe('auth.forbidden');
  expect(await browser.query('leases.list')).toMatchObject({ items: [{}] });
});

test('a role that is given by hand again leaves its limits, and another one lifts them, which the audit has', async () => {
  const stage = await aStage(RULES);
  stage.join('eu');
  const { browser } = await enter(stage);
  const { person } = (await browser.query('session.get')) as { person: { personId: string } };
  const { personId } = person;

  const again = await stage.admin.mutate('people.setRole', { personId, role: 'operator' });
  const seen = await browser.query('session.get');
  await stage.admin.mutate('people.setRole', { personId, role: 'viewer' });

  expect(again).toEqual({ changed: false });
  expect(seen).toMatchObject({ role: 'operator', namespaces: ['games.eu'] });
  expect(await stage.admin.query('audit.list', { action: 'people.setRole' })).toMatchObject({
    items: [{ detail: { role: 'viewer', namespaces: null, formerNamespaces: ['games.eu'] } }],
  });
});

test('a role that is given by hand has no limits until the next sign-in', async () => {
  const stage = await aStage(RULES);
  stage.join('eu');
  const { browser } = await enter(stage);
  const { person } = (await browser.query('session.get')) as { person: { personId: string } };
  const { personId } = person;

  await stage.admin.mutate('people.setRole', { personId, role: 'client' });
  expect(await browser.query('session.get')).toMatchObject({ role: 'client', namespaces: null });
  await enter(stage);

  expect(await browser.query('session.get')).toMatchObject({
    role: 'operator',
    namespaces: ['games.eu'],
  });
});

test('somebody in no group is refused, is told why, is not added, and loses former sessions', async () => {
  const stage = await aStage(RULES);
  const stranger = await enter(stage);
  expect(stranger.location).toBe('/sign-in?error=no_role');
  expect(await stage.admin.query('people.list')).toMatchObject({ items: [{ role: 'admin' }] });

  stage.join('ops');
  const former = await enter(stage);
  stage.join('others');
  const refused = await enter(stage);

  expect(refused.location).toBe('/sign-in?error=no_role');
  for (const { browser } of [former, refused]) {
    expect(await browser.query('session.get')).toBe('auth.required');
  }
  expect(await stage.admin.query('audit.list', { action: 'people.refuseSignIn' })).toMatchObject({
    items: [{ actor: 'bob@example.com', detail: { endedCount: 1 } }],
  });
});

describe('of an id_token that has an address and no groups', () => {
  const claims = { email: 'bob@example.com', email_verified: true };

  test('they are read at userinfo', async () => {
    const stage = await aStage(RULES);
    stage.provider.forge({ claims });
    stage.join('ops');

    const { browser } = await enter(stage);

    expect(await browser.query('session.get')).toMatchObject({ role: 'operator' });
  });

  test('somebody who has none there either is refused', async () => {
    const stage = await aStage(RULES);
    stage.provider.forge({ claims });

    expect((await enter(stage)).location).toBe('/sign-in?error=no_role');
  });

  test.each([401, 403, 404, 'signed'] as const)(
    'who has lost all is refused, and former sessions end, also where userinfo never tells any: %s',
    async (userinfo) => {
      const stage = await aStage(RULES);
      stage.join('ops');
      const former = await enter(stage);
      expect(await former.browser.query('session.get')).toMatchObject({ role: 'operator' });
      stage.provider.forge({ claims, userinfo });

      expect((await enter(stage)).location).toBe('/sign-in?error=no_role');
      expect(await former.browser.query('session.get')).toBe('auth.required');
    },
  );

  test('userinfo is not asked where a rule for everybody is the only one', async () => {
    const stage = await aStage('*=viewer');
    stage.provider.forge({ claims, userinfo: 503 });

    const { browser } = await enter(stage);

    expect(await browser.query('session.get')).toMatchObject({ role: 'viewer' });
  });

  test('without a usable answer of userinfo nobody comes in, and open sessions stay', async () => {
    const stage = await aStage(`${RULES},*=viewer`);
    stage.join('ops');
    const former = await enter(stage);

    for (const userinfo of [503, { sub: 'eve' }, { filler: 'x'.repeat(1_100_000) }] as const) {
      stage.provider.forge({ claims, userinfo });
      const failed = await enter(stage);
      expect(failed.location).toBe('/sign-in?error=oidc_failed');
      expect(await failed.browser.query('session.get')).toBe('auth.required');
    }
    expect(await former.browser.query('session.get')).toMatchObject({ role: 'operator' });
  });
});

test('groups of an id_token count without userinfo', async () => {
  const stage = await aStage(RULES);
  const claims = { email: 'bob@example.com', email_verified: true, groups: ['sre'] };
  stage.provider.forge({ claims, userinfo: 503 });

  const { browser } = await enter(stage);

  expect(await browser.query('session.get')).toMatchObject({ role: 'admin' });
});

test('a rule for everybody lets in who is in no group', async () => {
  const stage = await aStage(`${RULES},*=viewer`);

  const { browser } = await enter(stage);

  expect(await browser.query('session.get')).toMatchObject({ role: 'viewer' });
});

test('nobody is added under an address that is not verified', async () => {
  const stage = await aStage(RULES, { isVerified: false });
  stage.join('sre');

  expect((await enter(stage)).location).toMatch(/error=(?:not_invited|email_not_verified)/u);
  expect(await stage.admin.query('people.list')).toMatchObject({ items: [{ role: 'admin' }] });
});

test('a person who was disabled stays so, whatever groups allow', async () => {
  const stage = await aStage(RULES);
  stage.join('ops');
  const { browser } = await enter(stage);
  const { person } = (await browser.query('session.get')) as { person: { personId: string } };
  await stage.admin.mutate('people.disable', { personId: person.personId });
  stage.join('sre');

  expect((await enter(stage)).location).toBe('/sign-in?error=not_invited');
  expect(await stage.admin.query('people.list')).toMatchObject({
    items: [{ role: 'operator', status: 'disabled' }, {}],
  });
});

test('the last administrator stays one, and an administrator with a password is not touched', async () => {
  const stage = await aStage(RULES);
  stage.join('sre');
  const { browser } = await enter(stage);
  const people = (await stage.admin.query('people.list')) as { items: { personId: string }[] };
  await browser.mutate('people.setRole', { personId: people.items[1]?.personId, role: 'viewer' });
  stage.join('ops');

  expect((await enter(stage)).location).toBe('/');

  expect(await browser.query('session.get')).toMatchObject({ role: 'admin' });
  expect(outcomeOf(await stage.admin.request('/trpc/session.get'))).toMatchObject({
    role: 'viewer',
  });
});
