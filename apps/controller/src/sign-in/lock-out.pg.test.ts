import { Writable } from 'node:stream';
import { makeAdmin } from '@leasehold/keys-core/access';
import { createLogger } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  createTestBrowser,
  joinedPerson,
  PASSWORD,
  signedInAdmin,
  type BrowserAnswer,
} from '../testing/test-browser.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';

const FAILURES_MAX = 10;

/** Fails once, as if all failures but the last had already happened. */
async function lockWithOneFailure(on: TestController, email: string): Promise<BrowserAnswer> {
  await on.controller.store.general.$queryRaw`
    insert into sign_in_failure (email_hash, source, failure_count, failed_at)
    values (
      encode(sha256(convert_to(${email}, 'UTF8')), 'hex'), '127.0.0.1', ${FAILURES_MAX - 1},
      clock_timestamp()
    )
    on conflict (email_hash, source) do update
    set failure_count = excluded.failure_count, locked_until = null, failed_at = excluded.failed_at
    returning email_hash`;
  return createTestBrowser(on).signIn(email, 'a wrong password');
}

async function signIn(on: TestController, email: string): Promise<BrowserAnswer> {
  for (;;) {
    const answer = await createTestBrowser(on).signIn(email, PASSWORD);
    if (answer.body['code'] !== 'request.rate_limited') return answer;
  }
}

describe('an address that fails ten times in a row', () => {
  test('is locked, whether or not it belongs to a person, and the right password does not help', async () => {
    const on = await startTestController();
    await makeAdmin(on.controller.store, { email: 'ada@example.com', password: PASSWORD });

    const tenth = await lockWithOneFailure(on, 'ada@example.com');
    await lockWithOneFailure(on, 'nobody@example.com');
    const locked = await signIn(on, 'ada@example.com');
    const lockedToo = await signIn(on, 'nobody@example.com');

    expect(tenth.status).toBe(401);
    expect(locked).toMatchObject({ status: 429, body: { code: 'ACCOUNT_LOCKED' } });
    const lockedUntil = String(locked.body['lockedUntil']);
    const remainingMs = Date.parse(lockedUntil) - Date.now();
    expect(remainingMs).toBeGreaterThan(14 * 60_000);
    expect(remainingMs).toBeLessThanOrEqual(15 * 60_000);
    expect({ ...lockedToo, body: { ...lockedToo.body, lockedUntil } }).toEqual(locked);
  });

  test('may try again when the time is over, or an administrator allows it; the audit records it', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const bob = await joinedPerson(on, admin, { email: 'bob@example.com', role: 'viewer' });
    const { general } = on.controller.store;

    await lockWithOneFailure(on, 'bob@example.com');
    expect((await signIn(on, 'bob@example.com')).status).toBe(429);
    await general.$queryRaw`
      update sign_in_failure set locked_until = clock_timestamp() returning email_hash`;
    expect((await signIn(on, 'bob@example.com')).status).toBe(200);

    await lockWithOneFailure(on, 'bob@example.com');
    expect(await admin.query('people.list')).toMatchObject({
      items: expect.arrayContaining([
        expect.objectContaining({
          email: 'bob@example.com',
          lockedUntil: expect.any(String) as string,
        }),
      ]) as [],
    });
    expect(await admin.mutate('people.enable', { personId: bob.personId })).toEqual({
      changed: true,
    });
    expect((await signIn(on, 'bob@example.com')).status).toBe(200);
    expect(await admin.query('audit.list', { action: 'people.lockOut' })).toMatchObject({
      items: [{ resource: `person:${bob.personId}` }, { resource: `person:${bob.personId}` }],
    });
  });

  test('has ten tries whichever controllers it asks, and however many at once', async () => {
    const database = await createTestDatabase();
    const options = { databaseUrl: database.url, signIn: { authSecret: 'x'.repeat(32) } };
    const controllers = [await startTestController(options), await startTestController(options)];
    onTestFinished(() => database.drop());

    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, i) =>
        createTestBrowser(controllers[i % 2] ?? { url: '' }).signIn('ada@example.com', 'wrong'),
      ),
    );

    const statuses = answers.map((answer) => answer.status).sort();
    expect(statuses).toEqual([...Array<number>(10).fill(401), ...Array<number>(6).fill(429)]);
  });
});

describe('strangers who know an address', () => {
  const signIn = { consoleSecret: 'a console of these controllers: 0' };
  const from = (address: string): Record<string, string> => ({
    'leasehold-caller': address,
    'leasehold-console-secret': signIn.consoleSecret,
  });
  const signInFrom = (on: TestController, address: string, password: string) =>
    createTestBrowser(on).request('/api/auth/sign-in/email', {
      body: { email: 'ada@example.com', password },
      headers: from(address),
    });

  test('lock it for themselves, and keep out nobody who signs in from elsewhere', async () => {
    const on = await startTestController({ signIn });
    const ada = await signedInAdmin(on);
    await on.controller.store.general.$queryRaw`
      insert into sign_in_failure (email_hash, source, failure_count, failed_at)
      values (encode(sha256('ada@example.com'), 'hex'), '192.0.2.1', 9, clock_timestamp())
      returning email_hash`;

    const wrong = await signInFrom(on, '192.0.2.1', 'wrong');
    const locked = await signInFrom(on, '192.0.2.1', PASSWORD);
    const elsewhere = await signInFrom(on, '192.0.2.2', PASSWORD);
    const changed = await ada.request('/api/auth/change-password', {
      body: { currentPassword: PASSWORD, newPassword: 'another long password' },
      headers: from('192.0.2.1'),
    });

    expect([wrong, locked, elsewhere, changed].map(({ status }) => status)).toEqual([
      401, 429, 200, 200,
    ]);
  });

  test('lock it everywhere once they try from many places, except for signed-in people', async () => {
    const on = await startTestController({ signIn });
    const ada = await signedInAdmin(on);
    await on.controller.store.general.$queryRaw`
      insert into sign_in_failure (email_hash, failure_count, failed_at)
      values (encode(sha256('ada@example.com'), 'hex'), 99, clock_timestamp())
      on conflict (email_hash, source) do update set failure_count = 99
      returning email_hash`;

    const last = await signInFrom(on, '192.0.2.1', 'wrong');
    const elsewhere = await signInFrom(on, '192.0.2.2', PASSWORD);
    const changed = await ada.request('/api/auth/change-password', {
      body: { currentPassword: PASSWORD, newPassword: 'another long password' },
    });
    await ada.mutate('people.enable', { personId: ada.personId });
    const enabled = await signInFrom(on, '192.0.2.2', 'another long password');

    expect([last, elsewhere, changed, enabled].map(({ status }) => status)).toEqual([
      401, 429, 200, 200,
    ]);
  });

  test('get no more guesses when its person signs in meanwhile', async () => {
    const on = await startTestController({ signIn });
    await makeAdmin(on.controller.store, { email: 'ada@example.com', password: PASSWORD });
    for (const address of ['192.0.2.1', '192.0.2.2']) await signInFrom(on, address, 'wrong');

    await signInFrom(on, '192.0.2.3', PASSWORD);

    const counts = await on.controller.store.general.$queryRaw`
      select f.source, f.failure_count as "count" from sign_in_failure f order by f.source`;
    expect(counts).toEqual([
      { source: '', count: 2 },
      { source: '192.0.2.1', count: 1 },
      { source: '192.0.2.2', count: 1 },
    ]);
  });
});

test('a program on the machine of a controller cannot lock out anybody elsewhere, or name another source', async () => {
  const on = await startTestController();
  const ada = await signedInAdmin(on);
  await on.controller.store.general.$queryRaw`
    insert into sign_in_failure (email_hash, source, failure_count, failed_at)
    values (encode(sha256('ada@example.com'), 'hex'), '203.0.113.5', 9, clock_timestamp())
    returning email_hash`;

  const wrong = await createTestBrowser(on).request('/api/auth/sign-in/email', {
    body: { email: 'ada@example.com', password: 'wrong' },
    headers: {
      'x-forwarded-for': '203.0.113.5',
      forwarded: 'for=203.0.113.5',
      'x-real-ip': '203.0.113.5',
      'x-leasehold-source': '203.0.113.5',
      'leasehold-caller': '203.0.113.5',
      'leasehold-console-secret': 'a guess of thirty-two characters',
    },
  });

  expect(wrong.status).toBe(401);
  expect(
    await on.controller.store.general.$queryRaw`
      select f.source, f.failure_count as "count" from sign_in_failure f
      where f.source <> '' order by f.source`,
  ).toEqual([
    { source: '127.0.0.1', count: 1 },
    { source: '203.0.113.5', count: 9 },
  ]);
  expect(await ada.query('audit.list', { action: 'people.signIn' })).toMatchObject({
    items: [{ source: '127.0.0.1' }],
  });
});

test('a signed-in person has ten tries to enter their present password', async () => {
  const on = await startTestController();
  const ada = await signedInAdmin(on);
  const change = (currentPassword: string): Promise<BrowserAnswer> =>
    ada.request('/api/auth/change-password', {
      body: { currentPassword, newPassword: 'another long password' },
    });
  await on.controller.store.general.$queryRaw`
    insert into sign_in_failure (email_hash, source, failure_count, failed_at)
    values (encode(sha256('ada@example.com'), 'hex'), 'change-password', 9, clock_timestamp())
    returning email_hash`;

  expect((await change('wrong')).status).toBe(400);
  expect((await change(PASSWORD)).body['code']).toBe('ACCOUNT_LOCKED');
  expect((await signIn(on, 'ada@example.com')).status).toBe(200);
});

test('one address may try only a limited number of passwords a second, whatever headers it sends', async () => {
  const on = await startTestController({ signIn: { trustedProxies: [] } });

  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      createTestBrowser(on).request('/api/auth/sign-in/email', {
        body: { email: `nobody${String(i)}@example.com`, password: 'wrong' },
        headers: { 'x-forwarded-for': `192.0.2.${String(i)}` },
      }),
    ),
  );

  expect(answers.some((answer) => answer.body['code'] === 'request.rate_limited')).toBe(true);
});

test('no secret of a sign-in is in the log, however much is logged', async () => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const log = createLogger({ name: 'controller', level: 'trace', destination });
  const on = await startTestController({
    log,
    signIn: { authSecret: 'the secret of all cookies 0123' },
  });
  const admin = await signedInAdmin(on);
  const bob = await joinedPerson(on, admin, { email: 'bob@example.com', role: 'viewer' });
  await bob.signIn('bob@example.com', 'a password mistyped');
  await bob.signIn('typed-password-as-address@example.com', 'whatever it is');
  await bob.request('/api/auth/accept-invitation', {
    body: { invitation: 'an unknown invitation', password: PASSWORD },
  });

  const text = lines.join('');
  expect(text).toContain('controller answers');
  for (const secret of [
    PASSWORD,
    'a password mistyped',
    'typed-password-as-address',
    'an unknown invitation',
    'the secret of all cookies',
    ...[...bob.cookies.values()].map((value) => value.split('.')[0] ?? value),
  ]) {
    expect(text).not.toContain(secret);
  }
});
