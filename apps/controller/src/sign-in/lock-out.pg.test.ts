import { Writable } from 'node:stream';
import { createLogger } from '@leasehold/service-kit';
import { describe, expect, test } from 'vitest';
import {
  anEmail,
  aPerson,
  createTestBrowser,
  joinedPerson,
  ORIGIN,
  PASSWORD,
  signedInAdmin,
  type BrowserAnswer,
} from '../testing/test-browser.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';

const FAILURES_MAX = 10;
const CONSOLE_SECRET = 'a console of these controllers: 0';

/** Each test has people of its own. */
let on: TestController;

shareTestController(
  (shared) => {
    on = shared;
  },
  {
    signIn: { consoleSecret: CONSOLE_SECRET },
  },
);

/** Fails once, as if all failures but the last had already happened. */
async function lockWithOneFailure(email: string): Promise<BrowserAnswer> {
  await failed(email, '127.0.0.1', FAILURES_MAX - 1);
  return createTestBrowser(on).signIn(email, 'a wrong password');
}

const signIn = (email: string): Promise<BrowserAnswer> =>
  createTestBrowser(on).signIn(email, PASSWORD);

/** So many failures of one source, or everywhere. */
async function failed(email: string, source: string, count: number): Promise<void> {
  await on.controller.store.general.$queryRaw`
    insert into sign_in_failure (email_hash, source, failure_count, failed_at)
    values (
      encode(sha256(convert_to(${email}, 'UTF8')), 'hex'), ${source}, ${count}::int, clock_timestamp()
    )
    on conflict (email_hash, source) do update set failure_count = excluded.failure_count
    returning email_hash`;
}

/** The failures of an address that are counted, by their sources. */
const failuresOf = (email: string): Promise<{ source: string; count: number }[]> =>
  on.controller.store.general.$queryRaw`
    select f.source, f.failure_count as "count" from sign_in_failure f
    where f.email_hash = encode(sha256(convert_to(${email}, 'UTF8')), 'hex') order by f.source`;

describe('an address that fails ten times in a row', () => {
  test('is locked, whether or not it belongs to a person, and the right password does not help', async () => {
    const [ada, nobody] = [anEmail(), anEmail()];
    await aPerson(on, ada);

    const tenth = await lockWithOneFailure(ada);
    await lockWithOneFailure(nobody);
    const locked = await signIn(ada);
    const lockedToo = await signIn(nobody);

    expect(tenth.status).toBe(401);
    expect(locked).toMatchObject({ status: 429, body: { code: 'ACCOUNT_LOCKED' } });
    const lockedUntil = String(locked.body['lockedUntil']);
    const remainingMs = Date.parse(lockedUntil) - Date.now();
    expect(remainingMs).toBeGreaterThan(14 * 60_000);
    expect(remainingMs).toBeLessThanOrEqual(15 * 60_000);
    expect({ ...lockedToo, body: { ...lockedToo.body, lockedUntil } }).toEqual(locked);
  });

  test('may try again when the time is over, or an administrator allows it; the audit records it', async () => {
    const admin = await signedInAdmin(on, anEmail());
    const email = anEmail();
    const personId = await aPerson(on, email, 'viewer');

    await lockWithOneFailure(email);
    expect((await signIn(email)).status).toBe(429);
    await on.controller.store.general.$queryRaw`
      update sign_in_failure set locked_until = clock_timestamp()
      where email_hash = encode(sha256(convert_to(${email}, 'UTF8')), 'hex')
      returning email_hash`;
    expect((await signIn(email)).status).toBe(200);

    await lockWithOneFailure(email);
    expect(await admin.query('people.list')).toMatchObject({
      items: expect.arrayContaining([
        expect.objectContaining({
          email,
          lockedUntil: expect.any(String) as string,
        }),
      ]) as [],
    });
    expect(await admin.mutate('people.enable', { personId })).toEqual({ changed: true });
    expect((await signIn(email)).status).toBe(200);
    const resource = `person:${personId}`;
    expect(await admin.query('audit.list', { action: 'people.lockOut', resource })).toMatchObject({
      items: [{ resource }, { resource }],
    });
  });

  test('has ten tries whichever controllers it asks, and however many at once', async () => {
    const controllers = [on, await startTestController({ databaseUrl: on.databaseUrl })];
    const email = anEmail();

    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, i) =>
        createTestBrowser(controllers[i % 2] ?? { url: '' }).signIn(email, 'wrong'),
      ),
    );

    const statuses = answers.map((answer) => answer.status).sort();
    expect(statuses).toEqual([...Array<number>(10).fill(401), ...Array<number>(6).fill(429)]);
  });
});

describe('strangers who know an address', () => {
  const from = (address: string): Record<string, string> => ({
    'leasehold-caller': address,
    'leasehold-console-secret': CONSOLE_SECRET,
  });
  const signInFrom = (address: string, email: string, password: string) =>
    createTestBrowser(on).request('/api/auth/sign-in/email', {
      body: { email, password },
      headers: from(address),
    });

  test('lock it for themselves, and keep out nobody who signs in from elsewhere', async () => {
    const email = anEmail();
    const ada = await signedInAdmin(on, email);
    await failed(email, '192.0.2.1', 9);

    const wrong = await signInFrom('192.0.2.1', email, 'wrong');
    const locked = await signInFrom('192.0.2.1', email, PASSWORD);
    const elsewhere = await signInFrom('192.0.2.2', email, PASSWORD);
    const changed = await ada.request('/api/auth/change-password', {
      body: { currentPassword: PASSWORD, newPassword: 'another long password' },
      headers: from('192.0.2.1'),
    });

    expect([wrong, locked, elsewhere, changed].map(({ status }) => status)).toEqual([
      401, 429, 200, 200,
    ]);
  });

  test('lock it everywhere once they try from many places, except for signed-in people', async () => {
    const email = anEmail();
    const ada = await signedInAdmin(on, email);
    await failed(email, '', 99);

    const last = await signInFrom('192.0.2.1', email, 'wrong');
    const elsewhere = await signInFrom('192.0.2.2', email, PASSWORD);
    const changed = await ada.request('/api/auth/change-password', {
      body: { currentPassword: PASSWORD, newPassword: 'another long password' },
    });
    await ada.mutate('people.enable', { personId: ada.personId });
    const enabled = await signInFrom('192.0.2.2', email, 'another long password');

    expect([last, elsewhere, changed, enabled].map(({ status }) => status)).toEqual([
      401, 429, 200, 200,
    ]);
  });

  test('get no more guesses when its person signs in meanwhile', async () => {
    const email = anEmail();
    await aPerson(on, email);
    for (const address of ['192.0.2.1', '192.0.2.2']) await signInFrom(address, email, 'wrong');

    await signInFrom('192.0.2.3', email, PASSWORD);

    expect(await failuresOf(email)).toEqual([
      { source: '', count: 2 },
      { source: '192.0.2.1', count: 1 },
      { source: '192.0.2.2', count: 1 },
    ]);
  });
});

test('a program on the machine of a controller cannot lock out anybody elsewhere, or name another source', async () => {
  const email = anEmail();
  const ada = await signedInAdmin(on, email);
  await failed(email, '203.0.113.5', 9);

  const wrong = await createTestBrowser(on).request('/api/auth/sign-in/email', {
    body: { email, password: 'wrong' },
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
  expect((await failuresOf(email)).filter(({ source }) => source !== '')).toEqual([
    { source: '127.0.0.1', count: 1 },
    { source: '203.0.113.5', count: 9 },
  ]);
  const audited = { action: 'people.signIn', resource: `person:${ada.personId}` };
  expect(await ada.query('audit.list', audited)).toMatchObject({
    items: [{ source: '127.0.0.1' }],
  });
});

test('a signed-in person has ten tries to enter their present password', async () => {
  const email = anEmail();
  const ada = await signedInAdmin(on, email);
  const change = (currentPassword: string): Promise<BrowserAnswer> =>
    ada.request('/api/auth/change-password', {
      body: { currentPassword, newPassword: 'another long password' },
    });
  await failed(email, 'change-password', 9);

  expect((await change('wrong')).status).toBe(400);
  expect((await change(PASSWORD)).body['code']).toBe('ACCOUNT_LOCKED');
  expect((await signIn(email)).status).toBe(200);
});

test('one address may try only a limited number of passwords a second, whatever headers it sends', async () => {
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      fetch(`${on.url}/api/auth/sign-in/email`, {
        method: 'POST',
        headers: {
          origin: ORIGIN,
          'content-type': 'application/json',
          'x-forwarded-for': `192.0.2.${String(i)}`,
        },
        body: JSON.stringify({ email: anEmail(), password: 'wrong' }),
      }),
    ),
  );

  const texts = await Promise.all(answers.map((answer) => answer.text()));
  expect(texts.some((text) => text.includes('"request.rate_limited"'))).toBe(true);
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
  const logged = await startTestController({
    log,
    signIn: { authSecret: 'the secret of all cookies 0123' },
  });
  const admin = await signedInAdmin(logged);
  const bob = await joinedPerson(logged, admin, { email: 'bob@example.com', role: 'viewer' });
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
