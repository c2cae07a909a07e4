/** What people type wrong at first: each answer says what to do, and that can be done. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LeaseError } from '@leasehold/keys-core';
import { expect, onTestFinished, test } from 'vitest';
import { controllerThatAnswers, runHere } from './testing/in-process.ts';

const TOKEN = `lh_${'x'.repeat(43)}`;
const AT = '2030-01-02T03:04:05.000Z';
const NOWHERE = { LEASEHOLD_URL: 'http://127.0.0.1:1', LEASEHOLD_TOKEN: TOKEN };

test.each(['--port', '--console-port', '--gateway-port'])(
  'up refuses a value of %s that is no port by the name of the option',
  async (option) => {
    for (const value of ['99999', '-1', 'http']) {
      const { exitCode, stderr } = await runHere(['up', `${option}=${value}`]);

      expect(exitCode).toBe(2);
      expect(stderr).toContain(`${option} must be a port, 0 to 65535, not "${value}".`);
      expect(stderr).not.toContain('LEASEHOLD_');
    }
  },
);

test('a wrong variable of a command that starts nothing is refused, and nothing is said of starting', async () => {
  const { exitCode, stderr } = await runHere(['keys', 'ls'], { LEASEHOLD_TOKEN: 'lh_wrong' });

  expect(exitCode).toBe(2);
  expect(stderr).toContain('LEASEHOLD_TOKEN: must be a token');
  expect(stderr).not.toContain('started');
  // It would fail because of the same variable.
  expect(stderr).not.toContain('`leasehold');
});

test('a refused token is answered with no command that needs a token', async () => {
  const server = createServer((_request, response) => {
    const data = { leaseholdCode: 'auth.required', retryable: false, details: {} };
    response.writeHead(401).end(JSON.stringify({ error: { message: 'No.', code: -32_001, data } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;

  const { exitCode, stderr } = await runHere(['keys', 'ls'], {
    LEASEHOLD_URL: `http://127.0.0.1:${String(port)}`,
    LEASEHOLD_TOKEN: TOKEN,
  });

  expect(exitCode).toBe(5);
  expect(stderr).toContain('an administrator');
  expect(stderr).not.toContain('tokens ls');
});

test.each([
  ['nobody listens', () => Promise.resolve(NOWHERE.LEASEHOLD_URL)],
  [
    'something else answers',
    async () => {
      const server = createServer((_request, response) => void response.writeHead(404).end());
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      onTestFinished(() => void server.close());
      return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    },
  ],
])('doctor ends as unreachable where %s, and does not send to itself', async (_what, addressOf) => {
  const url = await addressOf();

  const { exitCode, stdout } = await runHere(['doctor'], { ...NOWHERE, LEASEHOLD_URL: url });

  expect(exitCode).toBe(3);
  expect(stdout).toContain(url);
  expect(stdout).not.toContain('`leasehold doctor`');
});

test.each([
  ['leases', 'run', 'jobs/x', 'sh', '-c', 'echo hi'],
  ['env', 'run', 'prod', '--action', 'deploy', 'sh', '-c', 'echo hi'],
])('an option of the command that is to be run is told to need "--": %j', async (...words) => {
  const { exitCode, stderr } = await runHere(words, NOWHERE);

  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/unknown option '-c'[^]*Put `--` before the command/u);
});

test.each(['leases', 'env'])('%s show of a namespace says how it is named', async (group) => {
  const nothing = { items: [], waiting: [], superseded: [] };
  const { env } = await controllerThatAnswers((path) => (path.includes('.get') ? null : nothing));

  const { exitCode, stderr } = await runHere([group, 'show', 'reminders'], env);

  expect(exitCode).toBe(4);
  expect(stderr).toContain(`\`leasehold ${group} ls --namespace reminders\``);
});

// What a command runs has options of its own: none of them may be taken from it, or take its place.
test.each([
  ['its option is one of this program', ['leases', 'run', 'a/b', 'true', '--version', '1']],
  ['its option is one of this command', ['leases', 'run', 'a/b', 'true', '--wait', '5m']],
  ['an option is between its words', ['leases', 'run', 'a/b', 'echo', '--shared', 'x']],
  [
    'an option is between its words, in an environment',
    ['env', 'run', 'a/b', '--action', 'deploy', 'true', '--comment', 'x'],
  ],
  [
    'a word of it is before the "--"',
    ['env', 'run', 'a/b', 'ssh', '--action', 'deploy', '--', 'true'],
  ],
])('a command is not run where %s', async (_what, args) => {
  const { exitCode, stdout, stderr } = await runHere(args, { ...NOWHERE, PATH: '/bin:/usr/bin' });

  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toMatch(/`--`|"--"/u);
});

test.each([
  ['env', '--context', 'prod', 'run', 'a/b', '--action', 'x', '--version', '1', '--', 'true'],
  ['--context', 'env', 'env', 'run', 'a/b', '--action', 'x', '--version', '1', '--', 'true'],
])('the --version of `env run` is never that of the program: %s %s %s', async (...args) => {
  const { exitCode, stdout, stderr } = await runHere(args, { ...NOWHERE, PATH: '/bin:/usr/bin' });

  expect(stdout).toBe('');
  // The context does not exist.
  expect(stderr).toContain('There is no context');
  expect(exitCode).toBe(4);
});

test.each([['--version'], ['-V'], ['--json', '--version']])(
  'the program tells its version where no command is named: %s',
  async (...args) => {
    const { exitCode, stdout } = await runHere(args);

    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/u);
  },
);

test.each([
  ['--zone', ['--until', '17:00', '--zone', 'Europe/Zurich'], 'with their offset'],
  ['--for', ['--weekly', 'Fri 17:00-Mon 08:00', '--for', '2h'], '--for goes with --cron only'],
  ['--for', ['--until', '2h', '--for', '2h'], '--for goes with --cron only'],
])('a freeze is not added with %s where it would be ignored', async (_what, options, hint) => {
  const add = ['env', 'freeze', 'add', 'a/b', '--reason', 'audit', ...options];
  const { exitCode, stderr } = await runHere(add, NOWHERE);

  expect(exitCode).toBe(2);
  expect(stderr).toContain(hint);
});

test.each([
  [['drone', 'upgrade', '--config', 'drone.json', '--json'], '--json'],
  [['audit', 'export', '--format', 'csv', '--json'], '--format csv'],
  [['leases', 'acquire', 'a/b', '--print-env', '--json'], '--print-env'],
  [['up', '--context', 'prod'], '--context'],
  [['controller', '--context', 'prod'], '--context'],
  [['--context', 'prod', 'drone', '--config', 'drone.json'], '--context'],
  [
    [
      ...['env', 'run', 'a/b', '--action', 'x', '--version', '1', '--comment', 'y'],
      ...['--', 'true'],
    ],
    '--comment',
  ],
])('nothing is done with an option that would be ignored: %j', async (args, named) => {
  const { exitCode, stdout, stderr } = await runHere(args, { ...NOWHERE, PATH: '/bin:/usr/bin' });

  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(named);
});

test('an empty list from which the datacenter is missing does not say that there is nothing', async () => {
  const missing = { datacenter: 'dc2', since: null, code: 'unreachable' };
  const page = { items: [], nextCursor: null, asOf: '2026-11-29T10:00:00.000Z' };
  const controller = await controllerThatAnswers(() => ({ ...page, unreachable: [missing] }));

  const { exitCode, stderr } = await runHere(
    ['leases', 'ls', '--datacenter', 'dc2', '-o', 'name'],
    controller.env,
  );

  expect(exitCode).toBe(3);
  expect(stderr).toContain('dc2 is missing');
});

test.each([
  ['a datacenter', { unreachable: [{ datacenter: 'dc2', since: null, code: 'unreachable' }] }],
  ['a part', { failed: ['backends'] }],
])(
  'find that finds nothing, and could not search %s, does not say that there is nothing',
  async (_what, missing) => {
    const found = { items: [], isComplete: true, failed: [], unreachable: [], ...missing };
    const controller = await controllerThatAnswers(() => found);

    const { exitCode, stdout } = await runHere(['find', 'room'], controller.env);

    expect(exitCode).toBe(3);
    expect(stdout).not.toContain('Nothing has');
    expect(stdout).toMatch(/dc2 is missing|Not searched this time: backends/u);
  },
);

test('logs of a key without a backend are not found, and --previous of a backend is wrong usage', async () => {
  const page = { items: [], nextCursor: null, asOf: '2026-11-29T10:00:00.000Z', unreachable: [] };
  const controller = await controllerThatAnswers(() => page);

  const ofKey = await runHere(['backends', 'logs', 'Room_42'], controller.env);
  const ofBackend = await runHere(['backends', 'logs', 'bk-1abc', '--previous'], controller.env);

  expect(ofKey.exitCode).toBe(4);
  expect(ofKey.stderr).toContain('There is no backend of a key Room_42.');
  expect(ofBackend.exitCode).toBe(2);
});

test('a backend of a key that lives in another datacenter is shown from there, and cannot be watched from here', async () => {
  const backend = { backendId: 'bk-1', key: { name: 'room', namespace: '' } };
  const { asked, env } = await controllerThatAnswers((path) => {
    if (path.includes('keys.get')) return { datacenter: 'dc2' };
    const isThere = path.includes('"datacenter":"dc2"');
    if (path.includes('backends.list')) {
      return { items: isThere ? [backend] : [], nextCursor: null };
    }
    if (path.includes('backends.logs')) {
      return { lines: [], position: 0, hasMore: false, hasEnded: false, isThere: true };
    }
    return new LeaseError('backend.not_found');
  });

  const logs = await runHere(['backends', 'logs', 'room', '--namespace', ''], env);
  const watched = await runHere(['backends', 'watch', 'room'], env);

  expect(logs).toMatchObject({ exitCode: 0, stderr: 'bk-1 has written nothing.\n' });
  expect(asked.find((path) => path.includes('backends.logs'))).toContain('"datacenter":"dc2"');
  expect(watched.exitCode).toBe(4);
  expect(watched.stderr).toContain('`leasehold backends logs bk-1 --follow --datacenter dc2`');
});

test('backends of the key in the root, elsewhere, and of one in a namespace here are told apart', async () => {
  const { env } = await controllerThatAnswers((path) => {
    if (path.includes('keys.get')) return { datacenter: 'dc2' };
    const namespace = path.includes('"datacenter":"dc2"') ? '' : 'game';
    const items = [{ backendId: 'bk-1', key: { name: 'room', namespace } }];
    return { items, nextCursor: null, unreachable: [] };
  });

  const { exitCode, stderr } = await runHere(['backends', 'logs', 'room'], env);

  expect(exitCode).toBe(2);
  expect(stderr).toContain('give --namespace, one of "", game.');
});

test('an environment that is free is there as long as somebody waits for it', async () => {
  const entry = { waiter: 'ci', action: 'deploy', comment: null, since: AT, place: 1 };
  const waiting = [{ ...entry, isPrior: false }];
  const superseded = [{ ...entry, by: 'ci2', at: AT }];
  let queue = { waiting, superseded };
  const { env } = await controllerThatAnswers((path) => {
    if (path.includes('environments.queue')) return queue;
    return path.includes('freezes') ? { items: [], nextCursor: null } : null;
  });
  const show = ['env', 'show', 'shop/prod', '--json'];

  const waitedFor = await runHere(show, env);
  queue = { waiting: [], superseded };
  const left = await runHere(show, env);

  expect(JSON.parse(waitedFor.stdout)).toMatchObject({ name: 'prod', phase: 'free' });
  expect(left).toMatchObject({ exitCode: 4, stdout: '' });
});

test('backends of keys in several namespaces are told apart, although one of them has filled the page', async () => {
  const key = { name: 'room', namespace: '' };
  const { env } = await controllerThatAnswers((path) => {
    if (path.includes('keys.get')) return null;
    if (path.includes('keys.list')) return { items: [key, { ...key, namespace: 'game' }] };
    return { items: [{ backendId: 'bk-1', key }], nextCursor: 'more', unreachable: [] };
  });

  const { exitCode, stderr } = await runHere(['backends', 'logs', 'room'], env);

  expect(exitCode).toBe(2);
  expect(stderr).toContain('give --namespace, one of "", game.');
});
