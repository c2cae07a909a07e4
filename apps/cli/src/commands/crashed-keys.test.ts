/** What commands say of a key whose backend has crashed, from a controller that answers what a test wants. */
import { describe, expect, test } from 'vitest';
import { controllerThatAnswers, runHere } from '../testing/in-process.ts';

const AT = '2030-01-02T03:04:05.000Z';
const LATER = '2030-01-02T03:05:05.000Z';
const EARLIER = '2030-01-02T03:03:05.000Z';

const crash = { reason: 'exited', exitCode: 17 };

/** A key whose backend crashed after it was ready. */
const aKey = (more: object = {}): object => ({
  name: 'alpha',
  namespace: '',
  tag: '',
  phase: 'free',
  remainingMs: 0,
  holder: 'drone-1',
  droneId: 'drone-1',
  backendId: 'bk-1',
  backendStatus: 'terminated',
  backendEnd: { ...crash, hasFailed: true },
  failing: null,
  fencingToken: '7',
  leaseId: 'id-1',
  grantedAt: EARLIER,
  renewedAt: EARLIER,
  expiresAt: LATER,
  asOf: AT,
  renewable: true,
  waiters: 0,
  datacenter: 'local',
  ...more,
});

const failing = (startAt: string): object => ({
  ...crash,
  failures: 5,
  since: EARLIER,
  failedAt: EARLIER,
  backendId: 'bk-1',
  startAt,
});

const aBackend = {
  backendId: 'bk-1',
  status: 'terminated',
  statusAt: AT,
  ...crash,
  key: { name: 'alpha', namespace: '', tag: '' },
  program: 'web',
  droneId: 'drone-1',
  address: '127.0.0.1:1',
  usage: null,
  idleStopSeconds: null,
  lifetimeLimitSeconds: null,
  throughGateways: null,
  image: null,
  logFiles: null,
  output: 'boom',
  states: [],
  fencingToken: '7',
  leaseId: 'id-1',
  createdAt: AT,
  datacenter: 'local',
};

/** @returns what is printed about a key that looks so. */
async function said(args: readonly string[], key: object, failures: object | null = null) {
  const { env, asked } = await controllerThatAnswers((path) => {
    if (path.includes('keys.get')) return key;
    if (path.includes('keys.failures')) return failures;
    if (path.includes('backends.get')) return aBackend;
    const items = path.includes('backends.list') ? [aBackend] : [];
    return { items: path.includes('keys.list') ? [key] : items, nextCursor: null, asOf: AT };
  });
  const ended = await runHere(args, env);
  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  return { stdout: ended.stdout, asked };
}

test('how a backend crashed is said in the same words by every command', async () => {
  const commands = [
    ['keys', 'ls'],
    ['keys', 'show', 'alpha'],
    ['backends', 'ls'],
    ['backends', 'show', 'alpha'],
  ];

  for (const command of commands) {
    const { stdout } = await said(command, aKey());
    expect.soft(stdout, command.join(' ')).toContain('Crashed (17)');
    expect.soft(stdout, command.join(' ')).not.toContain('terminated');
  }
});

test('backends show takes the name of a key, and shows its newest backend', async () => {
  const { stdout, asked } = await said(['backends', 'show', 'alpha'], aKey());

  expect(stdout).toMatch(/^backend +bk-1$/mu);
  expect(asked.some((path) => path.includes('backends.list') && path.includes('alpha'))).toBe(true);
});

describe('keys show', () => {
  test('says why the backend of a key ended, and how to read what it wrote', async () => {
    const { stdout } = await said(['keys', 'show', 'alpha'], aKey());

    expect(stdout).toMatch(
      /^reason +it crashed with exit code 17; `leasehold backends logs bk-1 --datacenter local` shows its output$/mu,
    );
  });

  test.each(['free', 'expired'])(
    'shows no holder and no end of a key that is %s',
    async (phase) => {
      const { stdout } = await said(['keys', 'show', 'alpha'], aKey({ phase }));
      const list = await said(['keys', 'ls', '-o', 'wide'], aKey({ phase }));

      expect(stdout).toMatch(/^last holder +drone-1$/mu);
      expect(stdout).toMatch(/^expires +-$/mu);
      expect(list.stdout).not.toContain(LATER);
    },
  );

  test('shows both of a key that is held', async () => {
    const held = aKey({ phase: 'held', backendStatus: 'ready', backendEnd: null });

    const { stdout } = await said(['keys', 'show', 'alpha'], held);

    expect(stdout).toMatch(/^holder +drone-1$/mu);
    expect(stdout).toContain(LATER);
  });

  test('says when the next start may be only while that is to come', async () => {
    const key = aKey({ failing: failing(LATER) });

    const delayed = await said(['keys', 'show', 'alpha'], key, failing(LATER));
    const due = await said(['keys', 'show', 'alpha'], key, failing(EARLIER));

    expect(delayed.stdout).toMatch(/^failures +5 since .*; next start from /mu);
    expect(due.stdout).toMatch(/^failures +5 since .*, the last one bk-1$/mu);
  });

  test('shows no failures once a backend is ready', async () => {
    const ready = aKey({ phase: 'held', backendStatus: 'ready', backendEnd: null });

    const { stdout } = await said(['keys', 'show', 'alpha'], ready, failing(EARLIER));

    expect(stdout).not.toMatch(/^failures/mu);
  });
});
