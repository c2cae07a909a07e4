/** What people type wrong at first: each answer says what to do, and that can be done. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { controllerThatAnswers, runHere } from './testing/in-process.ts';

const TOKEN = `lh_${'x'.repeat(43)}`;
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
  const { env } = await controllerThatAnswers(() => null);

  const { exitCode, stderr } = await runHere([group, 'show', 'reminders'], env);

  expect(exitCode).toBe(4);
  expect(stderr).toContain(`\`leasehold ${group} ls --namespace reminders\``);
});
