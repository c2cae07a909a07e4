import { isAdminSignIn } from '@leasehold/keys-core/access';
import { openStore } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { runCli } from '../program.ts';

interface Ended {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `leasehold admin create …`, as the process does. */
async function adminCreate(databaseUrl: string, args: string[], stdin = ''): Promise<Ended> {
  let [stdout, stderr] = ['', ''];
  const exitCode = await runCli(['admin', 'create', ...args], {
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
    readStdin: () => Promise.resolve(stdin),
    environment: { DATABASE_URL: databaseUrl },
    askSecret: () => Promise.resolve(undefined),
    isTerminal: false,
    signal: () => new AbortController().signal,
    signalWhileRead: () => new AbortController().signal,
    onSignal: () => undefined,
    wasAnswerLost: () => Promise.resolve(false),
  });
  return { exitCode, stdout, stderr };
}

async function aDatabase(): Promise<{
  readonly url: string;
  readonly opens: (email: string, password: string) => Promise<boolean>;
}> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const opens = async (email: string, password: string): Promise<boolean> => {
    const store = openStore({
      databaseUrl: database.url,
      datacenter: 'test',
      clock: createBootClock(),
      ids: systemIds(),
    });
    try {
      return await isAdminSignIn(store.general, { email, password });
    } finally {
      await store.close();
    }
  };
  return { url: database.url, opens };
}

test('makes an administrator and shows the password for the console, once', async () => {
  const { url, opens } = await aDatabase();

  const made = await adminCreate(url, ['--email', 'Ada@Example.com', '--json']);

  expect(made).toMatchObject({ exitCode: 0, stderr: '' });
  const answer = JSON.parse(made.stdout) as { email: string; password: string };
  expect(answer).toMatchObject({ email: 'ada@example.com', isNew: true });
  expect(await opens('ada@example.com', answer.password)).toBe(true);

  const again = await adminCreate(url, ['--email', 'ada@example.com']);
  const [password = ''] = again.stdout.split('\n');
  expect(await opens('ada@example.com', answer.password)).toBe(false);
  expect(await opens('ada@example.com', password)).toBe(true);
});

test('takes a password from the standard input, and does not repeat it', async () => {
  const { url, opens } = await aDatabase();
  const args = ['--email', 'ada@example.com', '--password-stdin'];

  const short = await adminCreate(url, args, 'too short\n');
  const made = await adminCreate(url, args, 'a password of my own\n');

  expect(short).toMatchObject({ exitCode: 2, stdout: '' });
  expect(short.stderr).toContain('12 to 128 characters');
  expect(made.exitCode).toBe(0);
  expect(made.stdout).not.toContain('a password of my own');
  expect(await opens('ada@example.com', 'a password of my own')).toBe(true);
});

test('reports what is missing: an address, a database, its tables', async () => {
  const { url } = await aDatabase();
  const empty = new URL(url);
  empty.pathname = '/postgres';
  const bare = await adminCreate(empty.href, ['--email', 'a@example.com']);
  const wrong = await adminCreate('postgresql://x@127.0.0.1:1/x', ['--email', 'nobody']);
  const closed = await adminCreate('postgresql://x@127.0.0.1:1/x', ['--email', 'a@example.com']);

  expect(wrong).toMatchObject({ exitCode: 2, stdout: '' });
  expect(wrong.stderr).toContain('e-mail address');
  expect(closed).toMatchObject({ exitCode: 3, stdout: '' });
  expect(closed.stderr).toContain('DATABASE_URL');
  expect(bare).toMatchObject({ exitCode: 1, stdout: '' });
  expect(bare.stderr).toContain('leasehold migrate');
});

test('accepts the addresses that the sign-in accepts, and no others', async () => {
  const { url } = await aDatabase();

  for (const email of ['root@localhost', 'ops@corp', 'jörg@example.com']) {
    const refused = await adminCreate(url, ['--email', email]);
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
    expect(refused.stderr).toContain('e-mail address');
  }
  expect(await adminCreate(url, ['--email', 'admin@leasehold.local'])).toMatchObject({
    exitCode: 0,
  });
});
