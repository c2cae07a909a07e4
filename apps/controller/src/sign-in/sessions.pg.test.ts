import { randomUUID } from 'node:crypto';
import { endSessionsOf } from '@leasehold/keys-core/access';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  anEmail,
  createTestBrowser,
  PASSWORD,
  signedInAdmin,
  signedInPerson,
  type TestBrowser,
} from '../testing/test-browser.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { acquireLease, refOf, wanted } from '../testing/wire-leases.ts';
import { mutate } from '../testing/wire.ts';

/** Of all controllers, as behind one console. */
const SIGN_IN = { authSecret: 'of both controllers: 0123456789abcdef' };

let on: TestController;
/** Who acts on others. Each test has people of its own. */
let admin: TestBrowser;

shareTestController(
  async (shared) => {
    on = shared;
    admin = await signedInAdmin(on);
  },
  { signIn: SIGN_IN },
);

/** An event stream that is open; `ended` once the controller has ended it. */
async function anOpenStream(browser: TestBrowser): Promise<{ readonly ended: () => boolean }> {
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const response = await browser.openStream(stopping.signal);
  expect(response.status).toBe(200);
  let isEnded = false;
  const read = async (): Promise<void> => {
    const reader = response.body?.getReader();
    try {
      while ((await reader?.read())?.done === false);
    } catch {
      // Cut off: that is an end too.
    }
    isEnded = true;
  };
  void read();
  return { ended: () => isEnded };
}

/** The same browser, at another controller. */
function moved(browser: TestBrowser, to: TestController): TestBrowser {
  const other = createTestBrowser(to);
  for (const [name, value] of browser.cookies) other.cookies.set(name, value);
  return other;
}

describe('an open stream ends', () => {
  test('when its person signs out, and the session is over at once', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const kept = moved(browser, on);
    const stream = await anOpenStream(browser);

    const answer = await browser.request('/api/auth/sign-out', { method: 'POST' });

    expect(answer.status).toBe(200);
    expect(browser.cookies.size).toBe(0);
    expect(await kept.query('session.get')).toBe('auth.required');
    await waitUntil(stream.ended);
  });

  test('when its person gets another role; the next call has the new one', async () => {
    const person = await signedInPerson(on, { email: anEmail(), role: 'operator' });
    const stream = await anOpenStream(person);
    const untouched = await anOpenStream(admin);

    await admin.mutate('people.setRole', { personId: person.personId, role: 'viewer' });

    expect(await person.query('session.get')).toMatchObject({ role: 'viewer' });
    expect(
      await person.mutate('keys.revoke', {
        namespace: ['a'],
        name: 'k',
        mode: 'graceful',
        reason: 'x',
      }),
    ).toBe('auth.forbidden');
    await waitUntil(stream.ended);
    expect(untouched.ended()).toBe(false);
  });

  test('when its person is disabled, and enabling them brings no session back', async () => {
    const email = anEmail();
    const person = await signedInPerson(on, { email, role: 'viewer' });
    const stream = await anOpenStream(person);

    await admin.mutate('people.disable', { personId: person.personId });

    expect(await person.query('session.get')).toBe('auth.required');
    await waitUntil(stream.ended);
    expect(await createTestBrowser(on).signIn(email, PASSWORD)).toMatchObject({
      status: 401,
      body: { code: 'INVALID_EMAIL_OR_PASSWORD' },
    });
    await admin.mutate('people.enable', { personId: person.personId });
    expect(await person.query('session.get')).toBe('auth.required');
    expect(await person.signIn(email, PASSWORD)).toMatchObject({ status: 200 });
  });

  test('when the session has run out', async () => {
    const browser = await signedInAdmin(on, anEmail());
    const stream = await anOpenStream(browser);

    await on.controller.store.general.$queryRaw`
      update person_session set expires_at = clock_timestamp() - interval '1 second'
      where person_id = ${browser.personId}::uuid
      returning id::text`;

    await waitUntil(stream.ended);
    await waitUntil(async () => (await browser.query('session.get')) === 'auth.required');
  });

  test('on every controller, whichever received the request', async () => {
    const second = await startTestController({ databaseUrl: on.databaseUrl, signIn: SIGN_IN });
    const person = await signedInPerson(on, { email: anEmail(), role: 'viewer' });
    const there = moved(person, second);
    expect(await there.query('session.get')).toMatchObject({ role: 'viewer' });
    const stream = await anOpenStream(there);

    await admin.mutate('people.signOutEverywhere', { personId: person.personId });

    await waitUntil(stream.ended);
    await waitUntil(async () => (await there.query('session.get')) === 'auth.required');
  });
});

describe('a session', () => {
  test('that nobody used for a week is over', async () => {
    const idle = await signedInAdmin(on, anEmail());
    expect(await idle.query('session.get')).toMatchObject({ role: 'admin' });

    await on.controller.store.general.$queryRaw`
      update person_session set seen_at = clock_timestamp() - interval '7 days'
      where person_id = ${idle.personId}::uuid
      returning id::text`;

    const answer = await waitUntil(async () => {
      const session = await idle.query('session.get');
      return typeof session === 'string' && session;
    });
    expect(answer).toBe('auth.required');
  });

  test('ends with all others of its person, and the audit records it', async () => {
    const email = anEmail();
    const here = await signedInAdmin(on, email);
    const there = createTestBrowser(on);
    await there.signIn(email, PASSWORD);

    const answer = await here.request('/api/auth/revoke-sessions', { method: 'POST' });

    expect(answer.status).toBe(200);
    expect(await there.query('session.get')).toBe('auth.required');
    await here.signIn(email, PASSWORD);
    const audited = { action: 'people.signOutEverywhere', resource: `person:${here.personId}` };
    expect(await here.query('audit.list', audited)).toMatchObject({
      items: [{ actor: email, source: '127.0.0.1', detail: { endedCount: 2 } }],
    });
  });
});

describe('a changed password', () => {
  test('ends every other session, and the old one opens none any longer', async () => {
    const email = anEmail();
    const here = await signedInAdmin(on, email);
    const there = createTestBrowser(on);
    await there.signIn(email, PASSWORD);
    const change = (body: Record<string, string>): Promise<{ status: number }> =>
      here.request('/api/auth/change-password', { body });

    const wrong = await change({
      currentPassword: 'not the password',
      newPassword: 'a new password',
    });
    const short = await change({ currentPassword: PASSWORD, newPassword: 'short' });
    const right = await change({ currentPassword: PASSWORD, newPassword: 'a new password' });

    expect(wrong).toMatchObject({ status: 400, body: { code: 'INVALID_PASSWORD' } });
    expect(short).toMatchObject({ status: 400, body: { code: 'request.invalid' } });
    expect(right.status).toBe(200);
    expect(await here.query('session.get')).toMatchObject({ actor: email });
    expect(await there.query('session.get')).toBe('auth.required');
    expect((await there.signIn(email, PASSWORD)).status).toBe(401);
    expect((await there.signIn(email, 'a new password')).status).toBe(200);
  });
});

test('a sign-in that has checked the old password opens no session once all sessions were ended', async () => {
  const email = anEmail();
  const ada = await signedInAdmin(on, email);
  const { general } = on.controller.store;
  const thief = createTestBrowser(on);

  // The password is right, and the sign-in waits for the row of its person.
  const signIn = await general.$transaction(async (tx) => {
    await tx.$executeRaw`set local idle_in_transaction_session_timeout = 0`;
    await tx.$queryRaw`
      select p.id::text from person p where p.id = ${ada.personId}::uuid for update`;
    const asked = thief.signIn(email, PASSWORD);
    await waitUntil(async () => {
      const rows = await general.$queryRaw<{ count: number }[]>`
        select count(*)::int as count from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%last_sign_in_at%'
          and datname = current_database()`;
      return rows[0]?.count === 1;
    });
    expect(await endSessionsOf(tx, ada.personId)).toBe(1);
    return { asked };
  });

  expect((await signIn.asked).body['code']).toBe('INVALID_EMAIL_OR_PASSWORD');
  expect(await thief.query('session.get')).toBe('auth.required');
  expect((await createTestBrowser(on).signIn(email, PASSWORD)).status).toBe(200);
});

test.each(['session', 'token'] as const)(
  'a call that waits for a lease ends with its %s, and is not granted what becomes free',
  async (kind) => {
    const eve = await signedInPerson(on, { email: anEmail(), role: 'client' });
    const program = await on.token('client');
    const holder = await on.token('client');
    const key = randomUUID();
    const held = await acquireLease(on, holder.secret, { key });
    const waiting = wanted({ key, holder: 'eve', waitMs: 30_000 });

    const wait =
      kind === 'session'
        ? eve.mutate('leases.acquire', waiting)
        : mutate(on, 'leases.acquire', { secret: program.secret, input: waiting });
    const outcome = wait.then(
      () => 'answered',
      () => 'cut off',
    );
    const { general } = on.controller.store;
    await waitUntil(async () => {
      const rows = await general.$queryRaw<unknown[]>`
        select 1 as one from lease_waiter where name = ${key}`;
      return rows.length === 1;
    });
    if (kind === 'session') await admin.mutate('people.disable', { personId: eve.personId });
    else await admin.mutate('tokens.revoke', { tokenId: program.tokenId });

    expect(await outcome).toBe('cut off');
    await mutate(on, 'leases.release', { secret: holder.secret, input: refOf(held) });
    // Their ticket is kept in the line for a while; that has passed.
    await general.$executeRaw`
      update lease_waiter set valid_until = clock_timestamp() where name = ${key}`;
    const next = await acquireLease(on, holder.secret, { key, waitMs: 20_000 });
    const grants = await general.$queryRaw`
      select e.lease_id::text as "leaseId" from lease_event e
      where e.kind = 'granted' and e.name = ${key} order by e.id`;
    expect(grants).toEqual([{ leaseId: held.leaseId }, { leaseId: next.leaseId }]);
  },
);
