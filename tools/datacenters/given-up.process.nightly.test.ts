import { execFile } from 'node:child_process';
import { bundleOf, waitUntil } from '@leasehold/testing';
import { startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { refusalOf } from './errors.ts';

/** So short that a test can wait until a datacenter may be given up. */
const START_ALONE_MS = 2_000;
const REASON = 'the hall has burnt down';

let world: Datacenters;

beforeAll(async () => {
  world = await startDatacenters({
    clusterUrl: inject('clusterUrl'),
    envOf: () => ({ LEASEHOLD_START_WITHOUT_ETCD_MS: String(START_ALONE_MS) }),
  });
}, 120_000);

afterAll(async () => {
  await (world as Datacenters | undefined)?.close();
});

interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `leasehold …` as an administrator of a datacenter. */
function leasehold(at: string, ...args: readonly string[]): Promise<Ended> {
  const { url, credentials } = world.dc(at);
  const env = {
    PATH: process.env['PATH'],
    LEASEHOLD_URL: url,
    LEASEHOLD_TOKEN: credentials.admin,
  };
  return new Promise((resolve) => {
    execFile(process.execPath, [bundleOf('cli'), ...args], { env }, (error, stdout, stderr) => {
      resolve({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

const giveUp = (at: string, name: string, ...more: readonly string[]): Promise<Ended> =>
  leasehold(at, 'datacenters', 'give-up', name, '--reason', REASON, ...more);

function connect(at: string, name: string, datacenter?: string) {
  return world
    .dc(at)
    .api('client')
    .keys.connect.mutate({ key: { name }, spawn: { program: 'idle', datacenter }, waitMs: 0 });
}

async function statesOf(at: string, name: string): Promise<string[]> {
  const { reservations } = world.dc(at).api('viewer');
  const detail = await reservations.get.query({ key: ['', name] });
  return detail?.links.map(({ datacenter, state }) => `${datacenter} ${state}`) ?? [];
}

/** What a controller that does not start has said. */
async function whyNotStarted(name: string): Promise<string> {
  return world
    .dc(name)
    .restartController()
    .then(
      () => 'it has started',
      (error: unknown) => String(error),
    );
}

test('a datacenter that answers is not given up, and one that is alone in its name is unknown', async () => {
  const answered = await giveUp('dc1', 'dc3', '--yes', '--json');
  const own = await giveUp('dc1', 'dc1', '--yes', '--json');
  const never = await giveUp('dc1', 'dc9', '--yes', '--json');

  expect(answered.exitCode).toBe(1);
  expect(answered.stderr).toContain('reservation.datacenter_reachable');
  expect(own.stderr).toContain('reservation.unknown_datacenter');
  expect(never.stderr).toContain('reservation.unknown_datacenter');
  expect((await connect('dc1', 'answers', 'dc3')).datacenter).toBe('dc3');
});

test('a declaration is taken back while the keys wait, and the datacenter starts again', async () => {
  await world.dc('dc3').controller().kill();

  const unconfirmed = await giveUp('dc1', 'dc3');
  const declared = await giveUp('dc1', 'dc3', '--yes');
  const refused = await whyNotStarted('dc3');
  const takenBack = await leasehold(
    ...(['dc1', 'datacenters', 'take-back', 'dc3', '--reason', 'it is back'] as const),
  );
  await world.dc('dc3').restartController();
  await world.untilInTouch();

  expect(unconfirmed).toMatchObject({ exitCode: 1, stdout: '' });
  expect(unconfirmed.stderr).toMatch(/Be certain that the controllers[^]*Add --yes/u);
  expect(declared.stdout).toMatch(
    /^dc3 was given up by bootstrap admin at .*Z \(the hall has burnt down\)\. In 1\d\.\d s nothing can act/u,
  );
  expect(refused).toContain(`The datacenter "dc3" was given up by bootstrap admin at`);
  expect(refused).toContain('`leasehold datacenters take-back dc3` in dc1 undoes it');
  expect(takenBack).toMatchObject({ exitCode: 0, stderr: '' });
  expect((await connect('dc2', 'answers')).datacenter).toBe('dc3');
});

test('C61 I14 the keys of a datacenter that is gone get other homes after the wait, once, with larger tokens', async () => {
  const before = await connect('dc3', 'lost');
  const travelled = await travelTo('dc3', 'travelled');
  for (const name of ['only reserved', 'moved']) {
    await world
      .dc('dc1')
      .api('client')
      .reservations.reserve.mutate({ key: ['', name], datacenter: 'dc3' });
  }
  await world.dc('dc3').controller().kill();
  world.cut('dc3');

  const declared = await waitUntil(async () => {
    const ended = await giveUp('dc1', 'dc3', '--yes');
    return ended.exitCode === 0 ? ended : undefined;
  });
  const early = await giveUp('dc2', 'dc3', '--yes', '--json');
  const whileItWaits = await refusalOf(connect('dc1', 'lost'));
  const shown = await waitUntil(async () => {
    const { stdout } = await leasehold('dc2', 'datacenters', 'ls');
    return stdout.includes('dc3 was given up') ? stdout : undefined;
  });
  const opened = await waitUntil(async () => {
    const ended = await giveUp('dc1', 'dc3', '--yes');
    return ended.exitCode === 0 ? ended : undefined;
  });
  for (const at of ['dc1', 'dc2']) await untilOpened(at, 'dc3');

  expect(declared.stdout).toContain('nothing can act on its keys any more');
  expect(early.exitCode).toBe(1);
  expect(early.stderr).toContain('reservation.give_up_early');
  expect(['reservation.datacenter_unreachable', 'request.outcome_unknown']).toContain(
    whileItWaits.code,
  );
  expect(shown).toContain(REASON);
  expect(opened.stdout).toContain('its keys get other homes');
  expect(await statesOf('dc2', 'lost')).toEqual(['dc3 given_up']);

  // One home, although two ask at once.
  const [one, other] = await Promise.all([connect('dc1', 'lost'), connect('dc2', 'lost')]);
  expect(one.backendId).toBe(other.backendId);
  expect(['dc1', 'dc2']).toContain(one.datacenter);
  expect(BigInt(one.fencingToken)).toBeGreaterThan(BigInt(before.fencingToken));
  expect(await statesOf('dc1', 'lost')).toEqual(['dc3 moved', `${one.datacenter} active`]);
  const again = await connect('dc2', 'travelled');
  expect(BigInt(again.fencingToken)).toBeGreaterThan(BigInt(travelled.fencingToken));
  // The controller there remembers that it lives in dc3.
  const found = await world
    .dc('dc1')
    .api('client')
    .keys.connect.mutate({ key: { name: 'travelled' } });
  expect(found.backendId).toBe(again.backendId);
  expect((await connect('dc1', 'only reserved', 'dc2')).datacenter).toBe('dc2');
  const moved = await leasehold(
    ...([
      'dc1',
      'reservations',
      'move',
      'moved',
      '--to-datacenter',
      'dc2',
      '--reason',
      'chosen',
    ] as const),
  );
  expect(moved.stdout).toContain('moved lives in dc2 now');
  const unheld = world
    .dc('dc1')
    .api('client')
    .keys.connect.mutate({ key: { name: 'answers' } });
  expect((await refusalOf(unheld)).code).toBe('key.unheld');
  expect((await refusalOf(connect('dc1', 'fresh', 'dc3'))).code).toBe(
    'reservation.datacenter_given_up',
  );
  const { items } = await world
    .dc('dc1')
    .api('operator')
    .audit.list.query({ action: 'datacenters.giveUp' });
  expect(items[0]).toMatchObject({
    actor: 'bootstrap admin',
    resource: 'datacenter:dc3',
    reason: REASON,
    detail: { abandon: false, isFinal: true },
  });
});

test('a datacenter that was given up and comes back refuses to serve, with and without etcd, and gives the reason', async () => {
  const cutOff = await whyNotStarted('dc3');
  world.heal('dc3');
  await world.etcd.waitUntilHealthy();
  const healed = await whyNotStarted('dc3');

  expect(cutOff).toMatch(/etcd \(LEASEHOLD_ETCD\) did not answer[^]*may have been given up since/u);
  expect(healed).toMatch(
    /The datacenter "dc3" was given up by bootstrap admin at 20.*Z: the hall has burnt down\. .*this is final/u,
  );
});

test('a controller that has asked etcd since its start goes on without it, and ends itself when it learns that its datacenter was given up', async () => {
  await connect('dc2', 'goes on', 'dc2');
  world.cut('dc2');
  // Longer than a controller that was started without etcd may run.
  const first = await renewedAt('dc2', 'goes on');
  const second = await waitUntil(async () => {
    const atMs = await renewedAt('dc2', 'goes on');
    return atMs > first + START_ALONE_MS ? atMs : undefined;
  });
  expect(await waitUntil(async () => (await renewedAt('dc2', 'goes on')) > second)).toBe(true);

  const abandoned = await waitUntil(async () => {
    const ended = await giveUp('dc1', 'dc2', '--yes', '--abandon');
    return ended.exitCode === 0 ? ended : undefined;
  });
  const controller = world.dc('dc2').controller();
  world.heal('dc2');

  expect(await controller.exited).toBe(1);
  expect(abandoned.stdout).toContain('without a wait, its keys get other homes');
  expect(controller.log()).toContain('The datacenter "dc2" was given up by bootstrap admin');
});

async function renewedAt(at: string, name: string): Promise<number> {
  const [row] = await world.dc(at).query<{ atMs: number }>(
    `select extract(epoch from renewed_at)::float8 * 1000 as "atMs"
     from lease where face = 'key' and name = $1`,
    [name],
  );
  return row?.atMs ?? 0;
}

/** A key that was granted in dc1, has moved, and was granted there. */
async function travelTo(datacenter: string, name: string) {
  const { leaseId } = await connect('dc1', name);
  const { keys, reservations } = world.dc('dc1').api('operator');
  await keys.revoke.mutate({ leaseId, mode: 'graceful', reason: 'it moves' });
  await waitUntil(() =>
    reservations.move
      .mutate({ key: ['', name], toDatacenter: datacenter, reason: 'it moves' })
      .then(() => true),
  );
  return connect(datacenter, name);
}

async function untilOpened(at: string, name: string): Promise<void> {
  await waitUntil(async () => {
    const { givenUp } = await world.dc(at).api('viewer').datacenters.list.query({});
    return givenUp.some(({ datacenter, opened }) => datacenter === name && opened !== null);
  });
}
