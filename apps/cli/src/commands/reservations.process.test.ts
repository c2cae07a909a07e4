import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

describe('leasehold reservations', () => {
  test('C37 reserve decides once which datacenter is the home of a key, and resolve reports it', async () => {
    const first = await cli.run('reservations', 'reserve', 'room', '--namespace', 'games');
    const again = await cli.run('reservations', 'reserve', 'room', '--namespace', 'games');
    const resolved = await cli.answer<{ outcome: string; datacenter: string }>(
      ...['reservations', 'resolve', 'room', '--namespace', 'games', '--fresh'],
    );

    expect(first.stdout).toBe('games/room lives in local from now on.\n');
    expect(again.stdout).toBe('games/room lives in local already.\n');
    expect(resolved).toMatchObject({ outcome: 'found', datacenter: 'local' });
  });

  test('any list of strings is a key of its own', async () => {
    const list = JSON.stringify(['a', 'b', 'c/d']);

    const reserved = await cli.run('reservations', 'reserve', '--json-key', list);

    expect(reserved.stdout).toBe(`${list} lives in local from now on.\n`);
    expect(await cli.refused('reservations', 'resolve', '--json-key', '["a","b/c","d"]')).toEqual({
      exitCode: 4,
      code: 'reservation.not_found',
    });
  });

  test('a key that was reserved but never connected to is pending in show, and is not in ls', async () => {
    await cli.run('reservations', 'reserve', 'shown');

    const shown = await cli.run('reservations', 'show', 'shown');
    const list = await cli.run('reservations', 'ls', '--datacenter', 'all', '--prefix', 'shown');

    expect(shown.stdout).toMatch(/^local +pending +local\.[0-9a-f-]{36}$/mu);
    expect(list).toMatchObject({ exitCode: 0, stdout: 'No reservations.\n' });
  });

  test('a refused move reports the reason by its code', async () => {
    await cli.run('reservations', 'reserve', 'stays');
    const move = (...args: string[]) =>
      cli.refused('reservations', 'move', ...args, '--reason', 'nearer');

    expect(await move('stays', '--to-datacenter', 'dc9')).toEqual({
      exitCode: 4,
      code: 'reservation.unknown_datacenter',
    });
    expect(await move('stays', '--to-datacenter', 'local')).toEqual({
      exitCode: 1,
      code: 'reservation.same_datacenter',
    });
    expect(await move('never-reserved', '--to-datacenter', 'local')).toEqual({
      exitCode: 4,
      code: 'reservation.not_found',
    });
    expect((await cli.refused('reservations', 'move', 'stays', '--reason', 'x')).exitCode).toBe(2);
  });
});

test('a refused move --when-free reports its code, and cancel-move without a move cancels nothing', async () => {
  await cli.run('reservations', 'reserve', 'waits');
  const move = ['reservations', 'move', 'waits', '--reason', 'nearer', '--when-free'];

  expect((await cli.refused(...move, '--to-datacenter', 'dc9')).code).toBe(
    'reservation.unknown_datacenter',
  );
  expect((await cli.refused(...move, '--to-datacenter', 'local')).code).toBe(
    'reservation.same_datacenter',
  );
  expect((await cli.run('reservations', 'cancel-move', 'waits')).stdout).toBe(
    'No move of waits waits.\n',
  );
});

describe('--datacenter', () => {
  test('with an unknown datacenter is refused, for lists, single items and acts', async () => {
    const unknown = { exitCode: 4, code: 'reservation.unknown_datacenter' };

    expect(await cli.refused('keys', 'ls', '--datacenter', 'dc9')).toEqual(unknown);
    expect(await cli.refused('leases', 'show', 'a/b', '--datacenter', 'dc9')).toEqual(unknown);
    expect(await cli.refused('drones', 'drain', 'd', '--datacenter', 'dc9')).toEqual(unknown);
    expect(await cli.refused('leases', 'run', 'a/b', '--datacenter', 'dc9', '--', 'true')).toEqual(
      unknown,
    );
  });

  test('with the name of the controller’s own has the same effect as without a name', async () => {
    const ran = await cli.run('leases', 'run', 'x/y', '--datacenter', 'local', '--', 'true');
    const list = await cli.run('leases', 'ls', '--namespace', 'x', '--datacenter', 'all');

    expect(ran).toMatchObject({ exitCode: 0, stderr: '' });
    expect(list.stdout).toMatch(/^x\/y +free .* local$/mu);
  });
});

test('leasehold datacenters ls shows the known datacenters, and where reservations are stored', async () => {
  const { stdout } = await cli.run('datacenters', 'ls');

  expect(stdout).toMatch(/^local \(this one\) +yes$/mu);
  expect(stdout).toContain("Reservation store: this datacenter's PostgreSQL; it can be reached.");
});
