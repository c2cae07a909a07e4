import { Writable } from 'node:stream';
import { createTestDatabase } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeAdmin } from '@leasehold/keys-core/store';
import { createLogger } from '@leasehold/service-kit';
import {
  createTestBrowser,
  joinedPerson,
  PASSWORD,
  signedInAdmin,
  type BrowserAnswer,
} from '../testing/test-browser.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';

const FAILURES_MAX = 10;

/** As if all but the last of the failures had come already. */
async function lockWithOneFailure(on: TestController, email: string): Promise<BrowserAnswer> {
  await on.controller.store.prisma.$queryRaw`
    insert into sign_in_failure (email_hash, failure_count, failed_at)
    values (
      encode(sha256(convert_to(${email}, 'UTF8')), 'hex'), ${FAILURES_MAX - 1}, clock_timestamp()
    )
    on conflict (email_hash) do update
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
  test('is locked, whether or not it is somebody’s, and the right password does not help', async () => {
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

  test('may try again when the time is over, or an administrator says so; the audit knows', async () => {
    const on = await startTestController();
    const admin = await signedInAdmin(on);
    const bob = await joinedPerson(on, admin, { email: 'bob@example.com', role: 'viewer' });
    const { prisma } = on.controller.store;

    await lockWithOneFailure(on, 'bob@example.com');
    expect((await signIn(on, 'bob@example.com')).status).toBe(429);
    await prisma.$queryRaw`
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

  test('begins anew after a success', async () => {
    const on = await startTestController();
    await makeAdmin(on.controller.store, { email: 'ada@example.com', password: PASSWORD });
    await on.controller.store.prisma.$queryRaw`
      insert into sign_in_failure (email_hash, failure_count, failed_at)
      values (encode(sha256('ada@example.com'), 'hex'), 9, clock_timestamp())
      returning email_hash`;

    expect((await signIn(on, 'ada@example.com')).status).toBe(200);
    const browser = createTestBrowser(on);

    expect((await browser.signIn('ada@example.com', 'wrong')).status).toBe(401);
    expect((await browser.signIn('ada@example.com', PASSWORD)).status).toBe(200);
  });
});

test('one address may try so many passwords a second, whoever it says it is', async () => {
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
    body: { invitation: 'an invitation that is none', password: PASSWORD },
  });

  const text = lines.join('');
  expect(text).toContain('controller answers');
  for (const secret of [
    PASSWORD,
    'a password mistyped',
    'typed-password-as-address',
    'an invitation that is none',
    'the secret of all cookies',
    ...[...bob.cookies.values()].map((value) => value.split('.')[0] ?? value),
  ]) {
    expect(text).not.toContain(secret);
  }
});
