import { randomUUID } from 'node:crypto';
import { repetitions } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import {
  anEmail,
  aPerson,
  createTestBrowser,
  joinedPerson,
  PASSWORD,
  signedInAdmin,
  type TestBrowser,
} from '../testing/test-browser.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';

/** Each test has people of its own beside this administrator, who is `ada@example.com`. */
let on: TestController;
let admin: TestBrowser & { readonly personId: string };

shareTestController(async (shared) => {
  on = shared;
  admin = await signedInAdmin(on);
});

interface Invited {
  readonly path: string;
  readonly expiresAt: string;
  readonly person: { readonly personId: string };
}

const secretOf = (invitation: Invited): string => invitation.path.split('=')[1] ?? '';

describe('an invitation', () => {
  test('lets its person choose a password and sign in, once', async () => {
    const id = randomUUID();
    const email = `bob-${id}@example.com`;
    const invited = (await admin.mutate('people.invite', {
      email: `Bob-${id}@Example.com`,
      role: 'operator',
    })) as Invited;
    const accept = (): ReturnType<typeof admin.request> =>
      createTestBrowser(on).request('/api/auth/accept-invitation', {
        body: { invitation: secretOf(invited), password: PASSWORD, name: 'Bob' },
      });

    const answers = await Promise.all([accept(), accept(), accept()]);

    expect(invited).toMatchObject({
      path: expect.stringMatching(/^\/sign-in\?invitation=[\w-]{43}$/u) as string,
      person: { email, status: 'invited', signInMethods: [] },
    });
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 400, 400]);
    expect(answers.find((answer) => answer.status === 400)?.body['code']).toBe(
      'INVALID_INVITATION',
    );
    expect(await admin.query('people.list', { search: id })).toMatchObject({
      items: [
        {
          email,
          name: 'Bob',
          role: 'operator',
          status: 'active',
          signInMethods: ['password'],
          sessionCount: 1,
        },
      ],
    });
    expect(await admin.mutate('people.invite', { email, role: 'admin' })).toBe('person.exists');
  });

  test('ends after a week, when it is renewed, and when its person is disabled', async () => {
    const email = anEmail();
    const invite = async (): Promise<Invited> =>
      (await admin.mutate('people.invite', { email, role: 'viewer' })) as Invited;
    const accept = async (invitation: Invited): Promise<number> =>
      (
        await createTestBrowser(on).request('/api/auth/accept-invitation', {
          body: { invitation: secretOf(invitation), password: PASSWORD },
        })
      ).status;

    const first = await invite();
    const second = await invite();
    expect(second.person.personId).toBe(first.person.personId);
    expect(await accept(first)).toBe(400);

    await on.controller.store.general.$queryRaw`
      update person set invitation_expires_at = clock_timestamp() where email = ${email}
      returning id::text`;
    expect(await accept(second)).toBe(400);

    const third = await invite();
    await admin.mutate('people.disable', { personId: third.person.personId });
    expect(await accept(third)).toBe(400);
    expect(await accept(await invite())).toBe(200);
  });

  test('accepts only passwords that are neither too short nor too long', async () => {
    const invited = (await admin.mutate('people.invite', {
      email: anEmail(),
      role: 'viewer',
    })) as Invited;
    const accept = (password: string): ReturnType<typeof admin.request> =>
      createTestBrowser(on).request('/api/auth/accept-invitation', {
        body: { invitation: secretOf(invited), password },
      });

    const short = await accept('x'.repeat(11));
    const long = await accept('x'.repeat(129));

    expect(short).toMatchObject({ status: 400, body: { code: 'request.invalid' } });
    expect(short.body['message']).toBe('password: must have at least 12 characters');
    expect(long.status).toBe(400);
    expect((await accept('x'.repeat(128))).status).toBe(200);
  });
});

describe('the last administrator', () => {
  const ROUNDS = repetitions({ gate: 3, short: 10, long: 10 });

  test('cannot be demoted or disabled, and people who cannot sign in do not count', async () => {
    const alone = await startTestController();
    const ada = await signedInAdmin(alone);
    const { personId } = ada;
    await ada.mutate('people.invite', { email: 'invited@example.com', role: 'admin' });
    const bob = await aPerson(alone, 'bob@example.com');
    expect(await ada.mutate('people.disable', { personId: bob })).toEqual({
      changed: true,
      tokensMade: 0,
    });

    expect(await ada.mutate('people.setRole', { personId, role: 'operator' })).toBe(
      'person.last_admin',
    );
    expect(await ada.mutate('people.disable', { personId })).toBe('person.last_admin');

    await ada.mutate('people.enable', { personId: bob });
    expect(await ada.mutate('people.setRole', { personId, role: 'operator' })).toEqual({
      changed: true,
    });
  });

  test('remains when administrators demote and disable each other at the same time', async () => {
    const alone = await startTestController();
    const ada = await aPerson(alone, 'ada@example.com');
    const bob = await aPerson(alone, 'bob@example.com');
    const secret = (await alone.token('admin')).secret;
    const { general } = alone.controller.store;

    for (let round = 0; round < ROUNDS; round += 1) {
      const act = (personId: string, procedure: string): Promise<unknown> =>
        createTestBrowser(alone).request(`/trpc/people.${procedure}`, {
          headers: { authorization: `Bearer ${secret}` },
          body: procedure === 'disable' ? { personId } : { personId, role: 'viewer' },
        });
      await Promise.all([act(ada, 'setRole'), act(bob, 'disable')]);
      await Promise.all([act(bob, 'setRole'), act(ada, 'disable')]);

      const admins = await general.$queryRaw<unknown[]>`
        select p.email from person p where p.role = 'admin' and p.disabled_at is null`;
      expect(admins).toHaveLength(1);
      await general.$queryRaw`
        update person set role = 'admin', disabled_at = null returning id::text`;
    }
  });
});

describe('people', () => {
  test('who do not exist are not found, and a change to what is so already changes nothing', async () => {
    const nobody = '00000000-0000-4000-8000-000000000000';

    for (const act of ['disable', 'enable', 'signOutEverywhere']) {
      expect(await admin.mutate(`people.${act}`, { personId: nobody })).toBe('person.not_found');
    }
    expect(await admin.mutate('people.setRole', { personId: nobody, role: 'viewer' })).toBe(
      'person.not_found',
    );
    const { personId } = admin;
    expect(await admin.mutate('people.setRole', { personId, role: 'admin' })).toEqual({
      changed: false,
    });
    expect(await admin.mutate('people.enable', { personId })).toEqual({ changed: false });
  });

  test('each change is in the audit, with who made it, to whom, and why', async () => {
    const email = anEmail();
    const { personId } = await joinedPerson(on, admin, { email, role: 'viewer' });

    await admin.mutate('people.setRole', { personId, role: 'operator', reason: 'on call' });
    await admin.mutate('people.disable', { personId, reason: 'has left' });

    const { items } = (await admin.query('audit.list', { resource: `person:${personId}` })) as {
      items: { action: string; actor: string; reason: string | null }[];
    };
    expect(items.map(({ action, actor, reason }) => [action, actor, reason])).toEqual([
      ['people.disable', 'ada@example.com', 'has left'],
      ['people.setRole', 'ada@example.com', 'on call'],
      ['people.signIn', email, null],
      ['people.acceptInvitation', email, null],
      ['people.invite', 'ada@example.com', null],
    ]);
  });

  test('are listed in pages, newest first', async () => {
    const domain = `${randomUUID()}.example.com`;
    for (const name of ['a', 'b', 'c']) {
      await admin.mutate('people.invite', { email: `${name}@${domain}`, role: 'viewer' });
    }
    // The newest of all; those of one millisecond have no order.
    await on.controller.store.general.$executeRaw`
      update person set created_at = created_at + interval '1 day'
        + interval '1 s' * (ascii(email) - ascii('a'))
      where split_part(email, '@', 2) = ${domain}`;
    const list = async (input: object) =>
      (await admin.query('people.list', input)) as {
        items: { email: string }[];
        nextCursor: string | null;
      };

    const first = await list({ limit: 2 });
    const page = { limit: 2, cursor: first.nextCursor };
    const second = await list(page);
    const found = await list({ ...page, search: domain });

    const emails = [...first.items, ...second.items].map((person) => person.email);
    expect(emails.slice(0, 3)).toEqual([`c@${domain}`, `b@${domain}`, `a@${domain}`]);
    expect(found).toMatchObject({ items: [{ email: `a@${domain}` }], nextCursor: null });
  });

  test('and the tokens are counted over all pages, those alone that a search finds', async () => {
    const id = randomUUID();
    const before = (await admin.query('people.count')) as { count: number };
    await admin.mutate('people.invite', { email: `bob-${id}@example.com`, role: 'viewer' });
    for (const name of [`deploy-${id}-eu`, `deploy-${id}-us`, `reports-${id}`]) {
      await admin.mutate('tokens.create', { name, role: 'client' });
    }
    const { items: tokens } = (await admin.query('tokens.list')) as { items: unknown[] };

    expect(await admin.query('people.count')).toEqual({ count: before.count + 1, isExact: true });
    expect(await admin.query('people.count', { search: `BOB-${id}` })).toMatchObject({ count: 1 });
    expect(await admin.query('tokens.count')).toMatchObject({ count: tokens.length });
    const deploy = { search: `Deploy-${id}` };
    expect(await admin.query('tokens.count', deploy)).toMatchObject({ count: 2 });
  });
});

test('disabling a person reports how many tokens in force they have made', async () => {
  const eve = await signedInAdmin(on, anEmail());
  const make = (name: string): Promise<unknown> =>
    eve.mutate('tokens.create', { name, role: 'viewer' });
  await make('kept');
  const { tokenId } = (await make('revoked')) as { tokenId: string };
  await eve.mutate('tokens.revoke', { tokenId });

  expect(await make('ada@example.com')).toBe('request.invalid');
  const disable = (): Promise<unknown> =>
    admin.mutate('people.disable', { personId: eve.personId });
  expect(await disable()).toEqual({ changed: true, tokensMade: 1 });
  expect(await disable()).toEqual({ changed: false, tokensMade: 1 });
});
