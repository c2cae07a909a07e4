/** What commands say of what they did, from a controller that answers what a test wants. */
import { expect, test } from 'vitest';
import { controllerThatAnswers, runHere } from '../testing/in-process.ts';

const AT = '2030-01-02T03:04:05.000Z';

const connected = {
  key: { name: 'alpha', namespace: '', tag: '' },
  address: '127.0.0.1:1',
  url: null,
  backendId: 'bk-1',
  spawned: false,
  status: 'ready',
  droneId: 'd1',
  datacenter: 'local',
  fencingToken: '7',
};

test('a connect that succeeded ends with 0, although its program cannot be asked for', async () => {
  const { asked, env } = await controllerThatAnswers((path) =>
    path.includes('keys.connect') ? connected : null,
  );

  const ended = await runHere(['connect', 'alpha', '--program', 'web'], env);

  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  expect(ended.stdout).toMatch(/^127\.0\.0\.1:1\n/u);
  expect(asked.some((path) => path.includes('backends.get'))).toBe(true);
});

test('drain in another datacenter says how a backend is stopped there', async () => {
  const { env } = await controllerThatAnswers(() => ({ backends: [{ backendId: 'bk-1' }] }));

  const { stdout } = await runHere(['drones', 'drain', 'd1', '--datacenter', 'dc2'], env);

  expect(stdout).toContain('`leasehold backends terminate ID --datacenter dc2`');
});

test.each([
  [[], 'watch bk-1'],
  [['--datacenter', 'dc2'], 'logs bk-1 --follow --datacenter dc2'],
])('terminate %j says how the backend can be followed from here', async (options, how) => {
  const { env } = await controllerThatAnswers(() => ({ outcome: 'terminating' }));

  const { stdout } = await runHere(['backends', 'terminate', 'bk-1', ...options], env);

  expect(stdout).toContain(`\`leasehold backends ${how}\`.`);
});

test('hold-off end is no success while another hold-off is in force', async () => {
  const holdOff = { epoch: '2', cause: 'controller', since: AT, until: AT, remainingMs: 5_000 };
  const { env } = await controllerThatAnswers((path) =>
    path.includes('holdOff.get') ? holdOff : { ended: null, remaining: holdOff },
  );

  const ended = await runHere(['hold-off', 'end', '--reason', 'tested', '--yes'], env);

  expect(ended.exitCode).toBe(1);
  expect(ended.stdout).toContain('there is another one');
});

test.each([
  ['held', 'it has ended meanwhile'],
  ['free', 'it is free'],
])('keys revoke of a key that was %s says why nobody holds it', async (phase, why) => {
  const { env } = await controllerThatAnswers((path) =>
    path.includes('keys.get')
      ? { leaseId: 'id-1', datacenter: 'local', phase }
      : { outcome: 'gone', stopsBy: null },
  );

  const { exitCode, stderr } = await runHere(['keys', 'revoke', 'alpha', '--reason', 'x'], env);

  expect(exitCode).toBe(1);
  expect(stderr).toContain(`Nobody holds alpha: ${why}.`);
});
