import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DRONE_ID, Fleet, OPEN } from '../testing/fleet-fixture.ts';
import { until } from '../testing/wait.ts';

const ROOM_SERVER = path.join(import.meta.dirname, '../../../../examples/room-server');
const EXAMPLES = {
  'echo-node': { command: process.execPath, args: [path.join(ROOM_SERVER, 'warm/echo.mjs')] },
  'echo-python': { command: 'python3', args: [path.join(ROOM_SERVER, 'warm/echo.py')] },
  'example-room': { command: process.execPath, args: [path.join(ROOM_SERVER, 'server.mjs')] },
};

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
  await fleet.startDrone({
    programs: {
      room: { ...taker(fleet.folder, 'room-of-the-test'), warm: 2, allowEnv: ['MODE'] },
      deaf: {
        command: '/bin/sh',
        args: ['-c', 'exec sleep 600'],
        readiness: { type: 'none', timeoutMs: 700 },
        warm: 1,
      },
      ...Object.fromEntries(
        Object.entries(EXAMPLES).map(([name, program]) => [name, { ...program, warm: 1 }]),
      ),
      broken: { command: '/bin/sh', args: ['-c', 'echo no; exit 4'], warm: 1 },
    },
  });
  await untilWarm('room', 2);
});
afterAll(() => fleet.close());

/** A program that takes a claim, or finds everything in its environment, and writes what it is. */
function taker(folder: string, marker: string): Record<string, unknown> {
  const file = `${folder}/${OPEN}/$(value LEASEHOLD_BACKEND_ID)`;
  const script = [
    'if [ -n "$LEASEHOLD_CLAIM_FILE" ]; then',
    '  until [ -e "$LEASEHOLD_CLAIM_FILE" ]; do sleep 0.01; done',
    `  value() { sed 's/.*"'"$1"'":"\\([^"]*\\)".*/\\1/' "$LEASEHOLD_CLAIM_FILE"; }`,
    'else value() { printenv "$1"; }; fi',
    `for name in LEASEHOLD_KEY LEASEHOLD_FENCING_TOKEN LEASEHOLD_BACKEND_ID MODE; do`,
    `  echo "$name $(value $name)"; done > ${file}.new; mv ${file}.new ${file}`,
    '[ -z "$LEASEHOLD_CLAIM_FILE" ] || rm "$LEASEHOLD_CLAIM_FILE"',
    `exec -a ${marker} sleep 600`,
  ].join('\n');
  return { command: '/bin/bash', args: ['-c', script], readiness: { type: 'none' } };
}

const get = () => fleet.api().drones.get.query({ droneId: DRONE_ID });

async function untilWarm(program: string, count: number): Promise<void> {
  await until(
    `${program} has warm processes`,
    async () => (await get()).warm.find((one) => one.program === program)?.count === count,
  );
}

function connect(name: string, spawn: { program?: string; env?: Record<string, string> } = {}) {
  return fleet.api().keys.connect.mutate({
    key: { name },
    spawn: { program: 'room', ...spawn },
    waitFor: 'ready',
  });
}

/** What a backend has written that it is. */
function said(backendId: string): Record<string, string> {
  const file = path.join(fleet.folder, OPEN, backendId);
  if (!existsSync(file)) return {};
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(' ') as [string, string]));
}

async function isWarm(backendId: string): Promise<boolean> {
  const { states } = await fleet.api().backends.get.query({ backendId });
  return states.some(({ detail }) => detail === 'by a warm process');
}

test('two connects at once claim two warm processes, each with its own key, token and variables', async () => {
  const [first, second] = await Promise.all([
    connect('one', { env: { MODE: 'dark' } }),
    connect('two', { env: { MODE: 'light' } }),
  ]);

  expect(await Promise.all([isWarm(first.backendId), isWarm(second.backendId)])).toEqual([
    true,
    true,
  ]);
  expect(said(first.backendId)).toEqual({
    LEASEHOLD_KEY: 'one',
    LEASEHOLD_FENCING_TOKEN: first.fencingToken,
    LEASEHOLD_BACKEND_ID: first.backendId,
    MODE: 'dark',
  });
  expect(said(second.backendId)).toEqual({
    LEASEHOLD_KEY: 'two',
    LEASEHOLD_FENCING_TOKEN: second.fencingToken,
    LEASEHOLD_BACKEND_ID: second.backendId,
    MODE: 'light',
  });
});

test.each(Object.keys(EXAMPLES))('the example %s serves its key, warm and not', async (program) => {
  await untilWarm(program, 1);
  const warm = await connect(`${program}-warm`, { program });
  const cold = await connect(`${program}-cold`, { program });

  const saidBy = async ({ address }: { address: string | null }): Promise<string> =>
    (await fetch(`http://${address ?? ''}/`)).text();
  expect(await isWarm(warm.backendId)).toBe(true);
  expect(await saidBy(warm)).toContain(`${program}-warm`);
  expect(await saidBy(cold)).toContain(`${program}-cold`);
});

test('a program that never takes its claim ends as one that did not start in time', async () => {
  await untilWarm('deaf', 1);

  const { backendId } = await fleet.api().keys.connect.mutate({
    key: { name: 'deaf' },
    spawn: { program: 'deaf' },
  });

  const backend = () => fleet.api().backends.get.query({ backendId });
  await until('it is terminated', async () => (await backend()).status === 'terminated');
  const { states, ...ended } = await backend();
  expect(ended).toMatchObject({ reason: 'startup_timeout', address: null });
  expect(states.at(-1)?.detail).toContain('has not taken its claim');
});

test('the view of a drone tells why a program has no warm process', async () => {
  const problem = async () =>
    (await get()).warm.find(({ program }) => program === 'broken')?.problem ?? null;
  await until('it is reported', async () => (await problem()) !== null);

  expect(await problem()).toBe('it ended with exit code 4');
  expect(fleet.drone().agent.log()).toContain('could not be kept warm');
});

test('a drone that is drained keeps none, and has them again when it is not', async () => {
  await untilWarm('room', 2);
  await fleet.api().drones.drain.mutate({ droneId: DRONE_ID });
  await untilWarm('room', 0);

  await fleet.api().drones.undrain.mutate({ droneId: DRONE_ID });

  await untilWarm('room', 2);
  expect(await isWarm((await connect('three')).backendId)).toBe(true);
});
