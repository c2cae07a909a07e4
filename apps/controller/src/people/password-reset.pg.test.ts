import { describe, expect, test } from 'vitest';
import {
  anEmail,
  createTestBrowser,
  PASSWORD,
  signedInAdmin,
  signedInPerson,
  type BrowserAnswer,
  type TestBrowser,
} from '../testing/test-browser.ts';
import { shareTestController, type TestController } from '../testing/test-controller.ts';

const NEW_PASSWORD = 'staple battery horse';

let on: TestController;
let admin: TestBrowser;

shareTestController(async (shared) => {
  on = shared;
  admin = await signedInAdmin(on);
});

/** Each test has a Bob of its own. */
interface Stage {
  readonly email: string;
  readonly bob: TestBrowser & { readonly personId: string };
  /** Makes a link for Bob, and returns its secret. */
  readonly reset: () => Promise<string>;
  /** Uses a link in a browser that has never been here. */
  readonly accept: (secret: string, name?: string) => Promise<BrowserAnswer>;
  readonly statusOf: (password: string) => Promise<number>;
}

async function aStage(): Promise<Stage> {
  const email = anEmail();
  const bob = await signedInPerson(on, { email, role: 'operator' });
  return {
    email,
    bob,
    async reset() {
      const made = await admin.mutate('people.resetPassword', { personId: bob.personId });
      const { path } = made as { path: string };
      return new URL(path, on.url).searchParams.get('invitation') ?? '';
    },
    accept: (secret, name) =>
      createTestBrowser(on).request('/api/auth/accept-invitation', {
        body: {
          invitation: secret,
          password: NEW_PASSWORD,
          ...(name === undefined ? {} : { name }),
        },
      }),
    async statusOf(password) {
      const answer = await createTestBrowser(on).signIn(email, password);
      return answer.status;
    },
  };
}

describe('the link of a password reset', () => {
  test('is valid for a day, and tells the console what it is for', async () => {
    const { bob, email } = await aStage();

    const made = (await admin.mutate('people.resetPassword', { personId: bob.personId })) as {
      expiresAt: string;
    };

    expect(made).toMatchObject({
      path: expect.stringMatching(/^\/sign-in\?invitation=[\w-]{43}&reset=1$/u) as string,
      person: { personId: bob.personId, email, status: 'active' },
    });
    const leftMs = Date.parse(made.expiresAt) - Date.now();
    expect(leftMs).toBeGreaterThan(23.9 * 3_600_000);
    expect(leftMs).toBeLessThanOrEqual(24 * 3_600_000 + 1_000);
  });

  test('sets a new password once, and changes nothing until then', async () => {
    const { bob, email, reset, accept, statusOf } = await aStage();
    const secret = await reset();
    expect(await statusOf(PASSWORD)).toBe(200);
    expect(await bob.query('session.get')).toMatchObject({ role: 'operator' });

    const answers = await Promise.all([accept(secret, 'Mallory'), accept(secret), accept(secret)]);

    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
    expect([await statusOf(PASSWORD), await statusOf(NEW_PASSWORD)]).toEqual([401, 200]);
    expect(await admin.query('people.list', { search: email })).toMatchObject({
      items: [{ name: email, role: 'operator', signInMethods: ['password'] }],
    });
  });

  test('ends the sessions of its person and their lock-out when it is used', async () => {
    const { bob, email, reset, accept } = await aStage();
    await on.controller.store.general.$queryRaw`
      insert into sign_in_failure (email_hash, source, failure_count, failed_at, locked_until)
      values (
        encode(sha256(convert_to(${email}, 'UTF8')), 'hex'), '', 100, clock_timestamp(),
        clock_timestamp() + interval '15 minutes'
      )
      on conflict (email_hash, source) do update
      set failure_count = excluded.failure_count, locked_until = excluded.locked_until
      returning email_hash`;
    const secret = await reset();
    const locked = await createTestBrowser(on).signIn(email, PASSWORD);
    expect(locked.status).toBe(429);

    expect((await accept(secret)).status).toBe(200);

    expect(await bob.query('session.get')).toBe('auth.required');
    const later = await createTestBrowser(on).signIn(email, NEW_PASSWORD);
    expect(later.status).toBe(200);
  });

  test('stays valid after a sign-in with the old password', async () => {
    const { reset, accept, statusOf } = await aStage();
    const secret = await reset();

    expect(await statusOf(PASSWORD)).toBe(200);

    expect((await accept(secret)).status).toBe(200);
  });

  test('ends when a newer one is made, after its time, and permanently when its person is disabled', async () => {
    const { bob, reset, accept } = await aStage();
    const { personId } = bob;
    const replaced = await reset();
    const expired = await reset();
    expect((await accept(replaced)).body['code']).toBe('INVALID_INVITATION');

    await on.controller.store.general.$queryRaw`
      update person set invitation_expires_at = clock_timestamp() where id = ${personId}::uuid
      returning id::text`;
    expect((await accept(expired)).body['code']).toBe('INVALID_INVITATION');

    const taken = await reset();
    await admin.mutate('people.disable', { personId });
    expect((await accept(taken)).body['code']).toBe('INVALID_INVITATION');
    await admin.mutate('people.enable', { personId });
    expect((await accept(taken)).body['code']).toBe('INVALID_INVITATION');
  });

  test('is refused for a person who is disabled, has not joined, or does not exist', async () => {
    const { bob } = await aStage();
    const reset = (personId: string): Promise<unknown> =>
      admin.mutate('people.resetPassword', { personId });
    const invited = (await admin.mutate('people.invite', {
      email: anEmail(),
      role: 'viewer',
    })) as { person: { personId: string } };
    await admin.mutate('people.disable', { personId: bob.personId });

    expect(await reset(bob.personId)).toBe('person.disabled');
    expect(await reset(invited.person.personId)).toBe('person.not_joined');
    expect(await reset('00000000-0000-4000-8000-000000000000')).toBe('person.not_found');
  });

  test('is in the audit when it is made and when it is used, and its secret is nowhere', async () => {
    const { bob, email, reset, accept } = await aStage();
    const secret = await reset();
    await accept(secret);

    const { items } = (await admin.query('audit.list', {
      resource: `person:${bob.personId}`,
    })) as { items: { action: string; actor: string; detail: unknown }[] };
    expect(items.slice(0, 3)).toMatchObject([
      { action: 'people.signIn', actor: email },
      {
        action: 'people.acceptPasswordReset',
        actor: email,
        detail: { endedCount: 1, wasLocked: false },
      },
      { action: 'people.resetPassword', actor: 'ada@example.com' },
    ]);
    expect(JSON.stringify(items)).not.toContain(secret);
    const kept = await on.controller.store.general.$queryRaw<unknown[]>`
      select p.email from person p where p::text like ${`%${secret}%`}`;
    expect(kept).toEqual([]);
  });
});
