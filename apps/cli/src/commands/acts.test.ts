/** What commands say of what they did, from a controller that answers what a test wants. */
import type { Server } from 'node:http';
import { LeaseError } from '@leasehold/keys-core';
import { createBootClock } from '@leasehold/service-kit';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { runCli } from '../program.ts';
import { contextOf, controllerThatAnswers, NO_ANSWER, runHere } from '../testing/in-process.ts';

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
  ['--stop', 'they are stopping'],
  ['--stop-after=7d', 'they go on'],
])('drain --stop %s ends at a signal while the controller hangs', async (option, fate) => {
  const stopping = new AbortController();
  const { env } = await controllerThatAnswers((path) => {
    if (path.includes('drones.drain')) return { backends: [{ backendId: 'bk-1' }], changed: true };
    stopping.abort();
    return NO_ANSWER;
  });
  const { context, printed } = contextOf(env);

  const draining = runCli(['drones', 'drain', 'd1', '--stop', option], {
    ...context,
    signal: () => stopping.signal,
  });

  expect(await draining).toBe(1);
  expect(printed.stderr).toContain(`It goes on draining, and ${fate}.`);
});

test.each([
  ['leases', 'watch', 'a'],
  ['env', 'watch', 'a'],
  ['backends', 'watch', 'bk-1'],
  ['backends', 'logs', 'bk-1', '--follow'],
  ['events', 'tail'],
])('until a controller answers, a signal ends %s %s as it ends any program', async (...words) => {
  let isTaken = false;
  const takenBefore: boolean[] = [];
  const { env } = await controllerThatAnswers(() => {
    takenBefore.push(isTaken);
    return new LeaseError('auth.forbidden');
  });
  const { context } = contextOf(env);

  const following = runCli(words, {
    ...context,
    signalWhileRead: () => {
      isTaken = true;
      return AbortSignal.abort();
    },
  });

  expect(await following).toBe(5);
  expect(takenBefore).toEqual([false]);
});

test('a signal ends `backends logs --follow` when its backend has ended and the controller hangs', async () => {
  const stopping = new AbortController();
  const { env, server } = await controllerThatAnswers((path) => {
    if (path.includes('backends.logs')) {
      return { lines: [], position: 0, hasMore: false, hasEnded: false, isThere: true };
    }
    stopping.abort();
    return NO_ANSWER;
  });
  endSubscriptions(server);
  const { context, printed } = contextOf(env);

  const following = runCli(['backends', 'logs', 'bk-1', '--follow'], {
    ...context,
    signalWhileRead: () => stopping.signal,
  });

  expect(await following).toBe(0);
  expect(printed).toEqual({ stdout: '', stderr: '' });
});

/** Nothing follows of what is subscribed to. */
function endSubscriptions(server: Server): void {
  const sockets = new WebSocketServer({ server });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
  });
  sockets.on('connection', (socket) => {
    socket.on('message', (message: Buffer) => {
      const { id } = JSON.parse(message.toString()) as { id?: number };
      if (id === undefined) return;
      for (const type of ['started', 'stopped']) {
        socket.send(JSON.stringify({ id, result: { type } }));
      }
    });
  });
}

test('a lease whose renewal was answered after its time is lost', async () => {
  const clock = createBootClock();
  const loseAtMs = 50;
  const { env } = await controllerThatAnswers(async () => {
    const askedAtMs = clock.nowMs();
    await waitUntil(() => clock.nowMs() - askedAtMs > loseAtMs);
    return { results: [{ outcome: 'renewed', deadlines: { loseAtMs } }] };
  });
  const leaseId = '00000000-0000-4000-8000-000000000000';

  const ended = await runHere(['leases', 'renew', leaseId, '--fencing-token', '7', '--json'], env);

  expect(ended).toMatchObject({ exitCode: 1, stdout: '' });
  expect(JSON.parse(ended.stderr)).toMatchObject({
    error: { code: 'lease.lost', details: { leaseId, reason: 'expired' } },
  });
});

test.each([
  [[], 'watch bk-1'],
  [['--datacenter', 'dc2'], 'logs bk-1 --follow --datacenter dc2'],
])('terminate %j says how the backend can be followed from here', async (options, how) => {
  const { env } = await controllerThatAnswers(() => ({ outcome: 'terminating' }));

  const { stdout } = await runHere(['backends', 'terminate', 'bk-1', ...options], env);

  expect(stdout).toContain(`\`leasehold backends ${how}\`.`);
});

test('revoke of one of several holders in another datacenter says how they are listed there', async () => {
  const { env } = await controllerThatAnswers(() => ({ pool: { used: 2 } }));

  const { exitCode, stderr } = await runHere(
    ['leases', 'revoke', 'jobs/a', '--reason', 'x', '--datacenter', 'dc2'],
    env,
  );

  expect(exitCode).toBe(2);
  expect(stderr).toContain('`leasehold leases show jobs/a --datacenter dc2`');
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
