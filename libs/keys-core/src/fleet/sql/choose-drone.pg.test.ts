import { describe, expect, test } from 'vitest';
import { aBackend, aDrone } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { openSession } from './drone-sessions.ts';
import { setDraining, setLost, chooseDrone, type DroneChoiceInput } from './drones.ts';

/** So long that a busy machine does not make a drone of a test unreachable. */
const HEARTBEAT_MS = 60_000;

const ROOM: DroneChoiceInput = {
  program: 'room',
  args: [],
  env: {},
  datacenter: 'local',
  heartbeatMs: HEARTBEAT_MS,
  random: () => 0.5,
};

describe('scheduler', () => {
  test('chooses a drone that offers the program and has room', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);

    expect(await chooseDrone(store, ROOM)).toEqual({ droneId });
  });

  test('C11 finds no drone for a program that nobody offers', async () => {
    const { store } = await openKernel();
    const programs = ['web', 'api'].map((name) => ({ name, allowArgs: false, allowEnv: [] }));
    await aDrone(store.general, { programs });
    await aDrone(store.general, { programs });
    await aDrone(store.general, { datacenter: 'elsewhere' });
    await aDrone(store.general, {
      heartbeatAgeMs: null,
      programs: [{ name: 'gone', allowArgs: false, allowEnv: [] }],
    });

    expect(await chooseDrone(store, { ...ROOM, program: 'wbe' })).toEqual({
      problem: 'not_offered',
      offered: ['api', 'web'],
    });
  });

  test.each([
    ['its heartbeat is older than three intervals', { heartbeatAgeMs: 3 * HEARTBEAT_MS + 500 }],
    ['it has sent no heartbeat', { heartbeatAgeMs: null }],
    ['it has no room', { capacity: 0 }],
    ['it is of another datacenter', { datacenter: 'elsewhere' }],
  ])('skips a drone when %s', async (_why, change) => {
    const { store } = await openKernel();
    await aDrone(store.general, change);

    expect(await chooseDrone(store, ROOM)).not.toHaveProperty('droneId');
  });

  test('C25 takes a drone whose heartbeat is late but younger than three intervals', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general, { heartbeatAgeMs: 2 * HEARTBEAT_MS });

    expect(await chooseDrone(store, ROOM)).toEqual({ droneId });
  });

  test('tells a drone that is full from a program that is offered nowhere', async () => {
    const { store } = await openKernel();
    await aDrone(store.general, { capacity: 0 });

    expect(await chooseDrone(store, ROOM)).toEqual({ problem: 'no_drone' });
  });

  test('skips a draining drone and a lost one', async () => {
    const { store } = await openKernel();
    const draining = await aDrone(store.general);
    await setDraining(store.general, draining.droneId, true);
    const lost = await aDrone(store.general);
    await setLost(store.general, lost.droneId);

    expect(await chooseDrone(store, ROOM)).toEqual({ problem: 'no_drone' });
  });

  test('C47 skips a drone that has rebooted since its last heartbeat', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);
    await openSession(store.general, {
      droneId,
      clockId: '00000000-0000-4000-8000-000000000000',
      datacenter: 'local',
      programs: [{ name: 'room', allowArgs: false, allowEnv: [] }],
      version: 'test',
      capacity: 10,
    });

    expect(await chooseDrone(store, ROOM)).toEqual({ problem: 'no_drone' });
  });

  test('of two drones chooses the one with fewer living backends', async () => {
    const { store } = await openKernel();
    const busy = await aDrone(store.general);
    const calm = await aDrone(store.general);
    await aBackend(store.general, { droneId: busy.droneId });
    await aBackend(store.general, { droneId: calm.droneId, status: 'terminated' });

    for (const at of [0, 0.3, 0.99]) {
      expect(await chooseDrone(store, { ...ROOM, random: () => at })).toEqual({
        droneId: calm.droneId,
      });
    }
  });

  test('a living backend takes room, a terminated one none', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general, { capacity: 1 });
    await aBackend(store.general, { droneId, status: 'terminated' });
    expect(await chooseDrone(store, ROOM)).toEqual({ droneId });

    await aBackend(store.general, { droneId, status: 'scheduled' });
    expect(await chooseDrone(store, ROOM)).toEqual({ problem: 'no_drone' });
  });

  test('refuses arguments and environment that no drone allows, and finds the one that does', async () => {
    const { store } = await openKernel();
    await aDrone(store.general);
    const asked = { ...ROOM, args: ['--fast'], env: { COLOUR: 'blue' } };
    expect(await chooseDrone(store, asked)).toEqual({ problem: 'not_allowed' });

    const { droneId } = await aDrone(store.general, {
      programs: [{ name: 'room', allowArgs: true, allowEnv: ['COLOUR'] }],
    });
    expect(await chooseDrone(store, asked)).toEqual({ droneId });
    expect(await chooseDrone(store, { ...asked, env: { SHAPE: 'round' } })).toEqual({
      problem: 'not_allowed',
    });
  });

  test.each([
    'LEASEHOLD_KEY',
    'PORT',
    'PATH',
    'LD_PRELOAD',
    'DYLD_INSERT_LIBRARIES',
    'NODE_OPTIONS',
  ])('never lets a request set %s, whatever the program allows', async (name) => {
    const { store } = await openKernel();
    await aDrone(store.general, {
      programs: [{ name: 'room', allowArgs: true, allowEnv: [name] }],
    });

    expect(await chooseDrone(store, { ...ROOM, env: { [name]: 'x' } })).toEqual({
      problem: 'not_allowed',
    });
  });
});
