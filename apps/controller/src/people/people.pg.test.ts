import { describe, expect, test } from 'vitest';
import {
  createTestBrowser,
  joinedPerson,
  PASSWORD,
  signedInAdmin,
} from '../testing/test-browser.ts';
import { startTestController } from '../testing/test-controller.ts';

interface Invited {
  readonly path: string;
  readonly expiresAt: string;
  readonly person: { readonly personId: string };
}

const secretOf = (invitation: Invited): string => invitation.path.split('=')[1] ?? '';

describe('an invitation', () => {
  test('lets its person choose a password and sign in, once', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const invited = (await admin.mutate('people.invite', {
      email: 'Bob@Example.com',
      role: 'operator',
    })) as Invited;
    const accept = (): ReturnType<typeof admin.request> =>
      createTestBrowser(on).request('/api/auth/accept-invitation', {
        body: { invitation: secretOf(invited), password: PASSWORD, name: 'Bob' },
      });

    const answers = await Promise.all([accept(), accept(), accept()]);

    expect(invited).toMatchObject({
      path: expect.stringMatching(/^\/sign-in\?invitation=[\w-]{43}$/u) as string,
      person: { email: 'bob@example.com', status: 'invited', signInMethods: [] },
    });
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 400, 400]);
    expect(answers.find((answer) => answer.status === 400)?.body['code']).toBe(
      'INVALID_INVITATION',
    );
    expect(await admin.query('people.list')).toMatchObject({
      items: [
        {
          email: 'bob@example.com',
          name: 'Bob',
          role: 'operator',
          status: 'active',
          signInMethods: ['password'],
          sessionCount: 1,
        },
        { email: 'ada@example.com' },
      ],
    });
    expect(await admin.mutate('people.invite', { email: 'bob@example.com', role: 'admin' })).toBe(
      'person.exists',
    );
  });

  test('ends after a week, when it is renewed, and when its person is disabled', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const invite = async (): Promise<Invited> =>
      (await admin.mutate('people.invite', {
        email: 'bob@example.com',
        role: 'viewer',
      })) as Invited;
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
      update person set invitation_expires_at = clock_timestamp() where email = 'bob@example.com'
      returning id::text`;
    expect(await accept(second)).toBe(400);

    const third = await invite();
    await admin.mutate('people.disable', { personId: third.person.personId });
    expect(await accept(third)).toBe(400);
    expect(await accept(await invite())).toBe(200);
  });

  test('accepts only passwords that are neither too short nor too long', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const invited = (await admin.mutate('people.invite', {
      email: 'bob@example.com',
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
  test('cannot be demoted or disabled, and people who cannot sign in do not count', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const { personId } = admin;
    await admin.mutate('people.invite', { email: 'invited@example.com', role: 'admin' });
    const bob = await joinedPerson(on, admin, { email: 'bob@example.com', role: 'admin' });
    expect(await admin.mutate('people.disable', { personId: bob.personId })).toEqual({
      changed: true,
      tokensMade: 0,
    });

    expect(await admin.mutate('people.setRole', { personId, role: 'operator' })).toBe(
      'person.last_admin',
    );
    expect(await admin.mutate('people.disable', { personId })).toBe('person.last_admin');

    await admin.mutate('people.enable', { personId: bob.personId });
    expect(await admin.mutate('people.setRole', { personId, role: 'operator' })).toEqual({
      changed: true,
    });
  });

  test('remains when administrators demote and disable each other at the same time', async () => {
    const on = await startTestController();
    const ada = await signedInAdmin(on);
    const bob = await joinedPerson(on, ada, { email: 'bob@example.com', role: 'admin' });
    const secret = (await on.token('admin')).secret;
    const { general } = on.controller.store;

    for (let round = 0; round < 10; round += 1) {
      const act = (personId: string, procedure: string): Promise<unknown> =>
        createTestBrowser(on).request(`/trpc/people.${procedure}`, {
          headers: { authorization: `Bearer ${secret}` },
          body: procedure === 'disable' ? { personId } : { personId, role: 'viewer' },
        });
      await Promise.all([act(ada.personId, 'setRole'), act(bob.personId, 'disable')]);
      await Promise.all([act(bob.personId, 'setRole'), act(ada.personId, 'disable')]);

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
    const on = await startTestController();
    const admin = await signedInAdmin(on);
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
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const bob = await joinedPerson(on, admin, { email: 'bob@example.com', role: 'viewer' });
    const { personId } = bob;

    await admin.mutate('people.setRole', { personId, role: 'operator', reason: 'on call' });
    await admin.mutate('people.disable', { personId, reason: 'has left' });

    const { items } = (await admin.query('audit.list', { resource: `person:${personId}` })) as {
      items: { action: string; actor: string; reason: string | null }[];
    };
    expect(items.map(({ action, actor, reason }) => [action, actor, reason])).toEqual([
      ['people.disable', 'ada@example.com', 'has left'],
      ['people.setRole', 'ada@example.com', 'on call'],
      ['people.signIn', 'bob@example.com', null],
      ['people.acceptInvitation', 'bob@example.com', null],
      ['people.invite', 'ada@example.com', null],
    ]);
  });

  test('are listed in pages, newest first', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    for (const name of ['b', 'c']) {
      await admin.mutate('people.invite', { email: `${name}@example.com`, role: 'viewer' });
    }
    // Those of one millisecond have no order.
    await on.controller.store.general.$executeRaw`
      update person set created_at = created_at + interval '1 s' * (ascii(email) - ascii('a'))`;

    const first = (await admin.query('people.list', { limit: 2 })) as {
      items: { email: string }[];
      nextCursor: string;
    };
    const second = (await admin.query('people.list', { limit: 2, cursor: first.nextCursor })) as {
      items: { email: string }[];
      nextCursor: null;
    };

    expect([...first.items, ...second.items].map((person) => person.email)).toEqual([
      'c@example.com',
      'b@example.com',
      'ada@example.com',
    ]);
    expect(second.nextCursor).toBeNull();
  });

  test('and the tokens are counted over all pages, those alone that a search finds', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    await admin.mutate('people.invite', { email: 'bob@example.com', role: 'viewer' });
    for (const name of ['deploy-eu', 'deploy-us', 'reports']) {
      await admin.mutate('tokens.create', { name, role: 'client' });
    }
    const { items: tokens } = (await admin.query('tokens.list')) as { items: unknown[] };

    expect(await admin.query('people.count')).toEqual({ count: 2, isExact: true });
    expect(await admin.query('people.count', { search: 'BOB' })).toMatchObject({ count: 1 });
    expect(await admin.query('tokens.count')).toMatchObject({ count: tokens.length });
    expect(await admin.query('tokens.count', { search: 'Deploy' })).toMatchObject({ count: 2 });
  });
});

test('disabling a person reports how many tokens in force they have made', async () => {
  const on = await startTestController();
  const admin = await signedInAdmin(on);
  const eve = await joinedPerson(on, admin, { email: 'eve@example.com', role: 'admin' });
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
