import { fileURLToPath } from 'node:url';
import type { ConnectResult } from '@leasehold/keys-core/keys';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';

const ROOM = fileURLToPath(new URL('../../../../examples/room-server/server.mjs', import.meta.url));

let cli: CliStage;

/** With the ladder `standard`: nothing here may depend on how fast a command is. */
beforeAll(async () => {
  cli = await CliStage.open({ ladder: 'standard' });
  const { secret } = await cli.answer<{ secret: string }>(
    ...['tokens', 'create', 'd1', '--role', 'drone', '--drone', 'd1', '--capacity', '100'],
    ...['--address', '127.0.0.0/8'],
    ...['room', 'crashing', 'missing', 'mute', 'deaf', 'talking'].flatMap((name) => [
      '--program',
      name,
    ]),
  );
  const shell = (script: string) => ({ command: 'sh', args: ['-c', script], port: 'auto' });
  await cli.startDrone({
    droneId: 'd1',
    token: secret,
    programs: {
      room: {
        command: process.execPath,
        args: [ROOM],
        env: { ROOM_STORE: 'rooms' },
        port: 'auto',
        readiness: { type: 'tcp' },
      },
      crashing: shell('echo begins; printf "no table \\033[31mrooms\\033[0m\\n" >&2; exit 17'),
      missing: { command: '/no/such/program', port: 'auto' },
      mute: { ...shell('echo waits; exec sleep 600'), readiness: { type: 'tcp', timeoutMs: 500 } },
      deaf: { ...shell('exec sleep 600'), readiness: { type: 'tcp' } },
      talking: {
        ...shell('seq 1 5; echo odd >&2; exec sleep 600'),
        readiness: { type: 'none' },
      },
    },
  });
  await waitUntil(async () => (await cli.run('drones', 'ls')).stdout.includes('d1'));
}, 60_000);

afterAll(() => cli.close());

/** A backend of this key that answers. */
async function ready(name: string): Promise<ConnectResult> {
  return cli.api().keys.connect.mutate({
    key: { name },
    spawn: { program: 'room' },
    waitFor: 'ready',
    waitMs: 30_000,
  });
}

async function phaseOf(name: string): Promise<string | undefined> {
  return (await cli.api().keys.get.query({ name }))?.phase;
}

test('connect without a name starts a program under a random one, in the namespace and tag that were asked for', async () => {
  const named = ['--namespace', 'games.eu', '--tag', 'blue', '--lifetime', '1h'];

  const connected = await cli.run('connect', '--program', 'talking', ...named);

  expect(connected).toMatchObject({ exitCode: 0, stderr: '' });
  expect(connected.stdout).toMatch(/^key +\S{8,}$/mu);
  expect(connected.stdout).toMatch(/^namespace +games\.eu$/mu);
  expect(connected.stdout).toMatch(/^tag +blue$/mu);

  const namesOf = async (namespace: string): Promise<unknown> =>
    (
      await cli.answer<{ items: { key: { namespace: string } }[] }>(
        ...['backends', 'ls', '--program', 'talking', '--namespace', namespace],
      )
    ).items.map(({ key }) => key.namespace);
  expect(await namesOf('games')).toEqual(['games.eu']);
  expect(await namesOf('game')).toEqual([]);
});

test('reset-failures of a key that was never held is not found, and no success', async () => {
  const reset = await cli.run('keys', 'reset-failures', 'mispelt');

  expect(reset).toMatchObject({ exitCode: 4, stdout: '' });
  expect(reset.stderr).toContain('There is no key mispelt.');
});

describe('a program that fails', () => {
  test.each([
    ['crashing', 'it crashed with exit code 17', ['begins', 'no table rooms']],
    ['missing', 'it crashed with exit code 127', []],
    ['mute', 'it was not ready in time', ['waits']],
  ])('%s: connect fails, says how, and shows its last lines', async (program, how, lines) => {
    const connected = await cli.run('connect', `of-${program}`, '--program', program);
    const { items } = await cli.answer<{ items: { backendId: string }[] }>(
      ...['backends', 'ls', '--key', `of-${program}`, '--json'],
    );
    const shown = await cli.run('backends', 'show', items[0]?.backendId ?? '');

    expect(connected).toMatchObject({ exitCode: 1, stdout: '' });
    expect(connected.stderr).toContain(how);
    expect(connected.stderr).toContain(`leasehold backends logs ${items[0]?.backendId ?? ''}`);
    for (const line of lines) {
      expect(connected.stderr).toContain(`\n  ${line}\n`);
      expect(shown.stdout).toContain(`\n  ${line}\n`);
    }
    expect(shown.stdout).toContain(how);
  });
});

test('of a program that does not listen on its port, keys show says on which, and how to read its output', async () => {
  const spawn = { program: 'deaf' };
  const { backendId } = await cli.api().keys.connect.mutate({ key: { name: 'deaf' }, spawn });

  const said = `backend ${backendId} runs, nothing answers on its port`;
  await waitUntil(async () => (await cli.run('keys', 'show', 'deaf')).stdout.includes(said));

  const { stdout } = await cli.run('keys', 'show', 'deaf');
  expect(stdout).toMatch(
    /^waiting for +backend .* port \d+ yet; `leasehold backends logs bk-\S+ --datacenter local` shows its output$/mu,
  );
  await cli.run('backends', 'terminate', backendId);
});

test('a program that no drone offers is refused with its name, what is offered, and the one that was meant', async () => {
  const { exitCode, stderr } = await cli.run('connect', 'mistyped', '--program', 'romo');

  expect(exitCode).toBe(1);
  expect(stderr).toMatch(
    /^No drone offers the program "romo"\. Offered: crashing, .*\n\(Did you mean room\?\)\n/u,
  );
  expect(stderr).not.toContain('details');
});

describe('leasehold backends logs', () => {
  test('--follow goes on while it is written, and ends with the backend', async () => {
    const { backendId } = await cli
      .api()
      .keys.connect.mutate({ key: { name: 'followed' }, spawn: { program: 'talking' } });
    const following = cli.start('backends', 'logs', backendId, '--follow', '--tail', '2');
    await waitUntil(() => /odd/u.test(following.said().stderr));

    await cli.run('backends', 'terminate', backendId);

    const { exitCode, stdout, stderr } = await following.ended;
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '5\n' });
    expect(stderr).toMatch(/^odd\nbk-\S+ has ended: it was stopped by an operator/u);
  });

  test('without any lines says that', async () => {
    const { backendId } = await ready('silent');

    const ended = await cli.run('backends', 'logs', backendId, '--since', '1ms');

    expect(ended).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: `${backendId} has written nothing within this time.\n`,
    });
  });

  test.each([
    ['nothing', ['no-such-backend'], 4, 'There is no backend of a key no-such-backend.'],
    ['a time without a unit that is known', ['x', '--since', '5 minutes'], 2, '--since must be'],
    ['a number below zero', ['x', '--tail', '-3'], 2, '--tail must be'],
  ])('refuses %s', async (_what, args, exitCode, said) => {
    const ended = await cli.run('backends', 'logs', ...args);

    expect(ended.exitCode).toBe(exitCode);
    expect(ended.stderr).toContain(said);
  });
});

describe('leasehold find', () => {
  test('lists what contains a text, whatever its case, or that nothing does', async () => {
    const { backendId } = await ready('Findable-Q4');

    const found = await cli.run('find', 'ABLE-q');
    const backends = await cli.answer<{ items: { kind: string; text: string }[] }>(
      ...['find', backendId, '--kind', 'backend', '--kind', 'token', '--json'],
    );
    const nothing = await cli.run('find', 'no-such-thing');

    expect(found.stdout).toMatch(/KIND +NAME +STATE[\s\S]*\nkey +Findable-Q4 +held +d1/u);
    expect(backends.items).toMatchObject([{ kind: 'backend', text: backendId }]);
    expect(nothing).toMatchObject({ exitCode: 0 });
    expect(nothing.stdout).toContain('Nothing has no-such-thing in its name.');
  });
});

describe('leasehold keys', () => {
  test('revoke tells the backend to stop, and the key is free when it has ended', async () => {
    await ready('graceful');

    const revoked = await cli.run('keys', 'revoke', 'graceful', '--reason', 'move it');

    await waitUntil(async () => (await phaseOf('graceful')) === 'free');
    const history = await cli.run('keys', 'history', 'graceful');
    expect(revoked.stdout).toMatch(
      /^graceful is being revoked: its backend was told to stop, and is gone by 20\d\d-.*Z\.$/mu,
    );
    expect(history.stdout).toMatch(/released [^]*move it [^]*granted/u);
  });

  test('revoke --force --abandon frees the key without waiting for its backend', async () => {
    await ready('abandoned');
    cli.drone().agent.signal('SIGSTOP');

    const revoked = await cli.run(
      ...['keys', 'revoke', 'abandoned', '--force', '--abandon', '--reason', 'machine is gone'],
    );
    const phase = await phaseOf('abandoned');
    cli.drone().agent.signal('SIGCONT');

    expect(revoked.stdout).toMatch(
      /^abandoned was revoked and is free. Its backend may run until 20\d\d-.*Z, beside a new one\.$/mu,
    );
    expect(phase).toBe('free');
  });

  test('block-renewal keeps callers waiting, who are in waiters, until allow-renewal undoes it', async () => {
    const first = await ready('blocked');

    const blocked = await cli.run('keys', 'block-renewal', 'blocked', '--reason', 'drain it');
    const again = await cli.run('keys', 'block-renewal', 'blocked');
    const shown = await cli.run('keys', 'show', 'blocked');
    const waiting = ready('blocked');
    await waitUntil(async () => {
      const { stdout } = await cli.run('keys', 'waiters', 'blocked');
      return /^WAITER .*\nbootstrap admin +\d/u.test(stdout);
    });
    const moment = new Date().toISOString();
    const allowed = await cli.run('keys', 'allow-renewal', 'blocked');
    const then = await cli.run('keys', 'show', 'blocked', '--at', moment);

    expect(blocked.stdout).toBe('blocked is not renewed any more, and will expire.\n');
    expect(again.stdout).toContain('Nothing changed');
    expect(shown.stdout).toMatch(/^renewal +blocked$/mu);
    expect(allowed.stdout).toBe('blocked may be renewed again.\n');
    expect(then.stdout).toMatch(/^key +blocked\nat +20.*\nphase +expiring\nholder +d1$/mu);
    expect(then.stdout).toMatch(/^renewal blocked +20.* by .*: drain it$/mu);
    expect(await waiting).toMatchObject({ spawned: false, backendId: first.backendId });
  });
});

describe('leasehold backends', () => {
  test('ls and show describe a backend, and terminate --hard kills it', async () => {
    const { backendId, address } = await ready('killed');

    const list = await cli.run('backends', 'ls', '--live', '--key', 'killed');
    const shown = await cli.run('backends', 'show', backendId);
    const killed = await cli.run('backends', 'terminate', backendId, '--hard', '--reason', 'stuck');

    const ended = await cli.run('backends', 'watch', backendId);
    expect(list.stdout).toMatch(new RegExp(`^${backendId} +ready .*killed .*room .*d1 `, 'mu'));
    expect(shown.stdout).toMatch(new RegExp(`^address +${String(address)}$`, 'mu'));
    expect(killed.stdout).toContain(`${backendId} is being killed.`);
    expect(ended.stdout).toMatch(/ terminated, external/u);
  });

  test('terminate of a backend that has ended is refused, and is no act of anybody', async () => {
    const { backendId } = await ready('over');
    await cli.run('backends', 'terminate', backendId, '--hard', '--reason', 'first');
    await cli.run('backends', 'watch', backendId);

    const again = await cli.refused('backends', 'terminate', backendId, '--reason', 'second');

    expect(again).toEqual({ exitCode: 1, code: 'backend.ended' });
    const { items } = await cli.api().audit.list.query({ resource: `backend:${backendId}` });
    expect(items.map(({ reason }) => reason)).toEqual(['first']);
  });
});

describe('leasehold drones', () => {
  test('drain names the backends that go on and lets none start, until undrain', async () => {
    const { backendId } = await ready('stays');

    const drained = await cli.run('drones', 'drain', 'd1', '--reason', 'new kernel');
    const shown = await cli.run('drones', 'show', 'd1');
    const refused = await cli.refused('connect', 'fresh', '--program', 'room');
    const undrained = await cli.run('drones', 'undrain', 'd1');
    const started = await cli.run('connect', 'fresh', '--program', 'room');
    const audit = await cli.run('audit', 'ls', '--resource', 'drone:d1');

    expect(drained.stdout).toMatch(/^d1 takes no new backends\. It still runs these/u);
    expect(drained.stdout).toContain(`\n  ${backendId}`);
    expect(shown.stdout).toMatch(/^draining +yes$/mu);
    expect(refused).toEqual({ exitCode: 1, code: 'spawn.no_drone' });
    expect(undrained.stdout).toBe('d1 takes new backends.\n');
    expect(started).toMatchObject({ exitCode: 0, stderr: '' });
    expect(audit.stdout).toMatch(/drones\.undrain [^]*drones\.drain .* new kernel$/mu);
  });
});
