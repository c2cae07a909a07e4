import { describe, expect, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { recordGoodbye, type SessionRef } from '../fleet/sql/drone-sessions.ts';
import { setDraining } from '../fleet/sql/drones.ts';
import { readOutboxes } from '../fleet/sql/outbox.ts';
import type { LeaseError } from '../kernel/errors.ts';
import { LIMITS } from '../kernel/limits.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age, eventsOf } from '../testing/kernel-fixture.ts';
import {
  actionsOf,
  CLIENT,
  connect,
  keyNamed,
  type Keys,
  NO_ROWS,
  openKeys,
  reportOf,
  rowCounts,
  statesOf,
} from '../testing/keys-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';
import type { BackendReport } from './key-types.ts';

describe('connect', () => {
  test('C1 a free key is granted to a drone, with its backend and its spawn in one transaction', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);

    const made = await connect(on);

    expect(made).toMatchObject({
      key: { name: 'demo', namespace: '', tag: '' },
      spawned: true,
      status: 'scheduled',
      address: null,
      droneId: drone.droneId,
      datacenter: 'local',
    });
    expect(await eventsOf(on, 'demo')).toEqual([`granted ${made.fencingToken}`]);
    const [outbox] = await readOutboxes(on.store.general, [drone.droneId]);
    expect(outbox?.actions).toMatchObject([
      {
        kind: 'spawn',
        backendId: made.backendId,
        payload: {
          program: 'room',
          leaseId: made.leaseId,
          fencingToken: made.fencingToken,
          clockId: drone.clockId,
        },
      },
    ]);
    expect((await statesOf(on, made.backendId)).states).toEqual(['scheduled']);
  });

  test('C2 returns the backend of a held key, and starts nothing', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const made = await connect(on);
    await on.keys.report(reportOf(drone, made.backendId, 'ready', { address: '127.0.0.1:5000' }));

    const again = await connect(on);
    const withoutSpawn = await connect(on, { spawn: undefined });

    const expected = { ...made, spawned: false, status: 'ready', address: '127.0.0.1:5000' };
    expect([again, withoutSpawn]).toEqual([expected, expected]);
    expect(await rowCounts(on)).toMatchObject({ leases: 1, backends: 1, actions: 1, events: 1 });
  });

  test('C3 C4 another key, and the same name in another namespace, have backends of their own', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);

    const made = await Promise.all([
      connect(on),
      connect(on, { key: keyNamed('other') }),
      connect(on, { key: { name: 'demo', namespace: 'a', tag: '' } }),
      connect(on, { key: { name: 'demo', namespace: 'a.b', tag: '' } }),
    ]);

    expect(new Set(made.map(({ backendId }) => backendId)).size).toBe(4);
  });

  test('C5 a tag mismatch is an error and leaves the holder untouched', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const blue = await connect(on, { key: { name: 'demo', namespace: '', tag: 'blue' } });
    const before = await on.keys.get({ name: 'demo', namespace: '' }, CLIENT);

    await expect(
      connect(on, { key: { name: 'demo', namespace: '', tag: 'red' } }),
    ).rejects.toMatchObject({
      code: 'key.tag_mismatch',
      details: { holder: blue.droneId },
    });
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.tag_mismatch' });

    const after = await on.keys.get({ name: 'demo', namespace: '' }, CLIENT);
    expect({ ...after, asOf: '', remainingMs: 0 }).toEqual({ ...before, asOf: '', remainingMs: 0 });
    expect(await rowCounts(on)).toMatchObject({ backends: 1, actions: 1, events: 1 });
  });

  test('C46 two programs with different tags: no caller gets the backend of the other program', async () => {
    const on = await openKeys();
    const offers = (name: string): Promise<unknown> =>
      aDrone(on.store.general, { programs: [{ name, allowArgs: false, allowEnv: [] }] });
    await Promise.all([offers('chat'), offers('game')]);
    const ask = (program: string): ReturnType<typeof connect> =>
      connect(on, {
        key: { name: 'demo', namespace: '', tag: program },
        spawn: { program, args: [], env: {} },
      });

    const chat = await ask('chat');
    const game = ask('game');

    await expect(game).rejects.toMatchObject({ code: 'key.tag_mismatch' });
    expect((await ask('chat')).backendId).toBe(chat.backendId);
  });

  test('a key that ran out under one tag is granted under another', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const blue = await connect(on, { key: { name: 'demo', namespace: '', tag: 'blue' } });
    await age(on, blue.leaseId, 60_000);

    const red = await connect(on, { key: { name: 'demo', namespace: '', tag: 'red' } });

    expect(red).toMatchObject({ spawned: true, key: { tag: 'red' } });
    expect(BigInt(red.fencingToken)).toBeGreaterThan(BigInt(blue.fencingToken));
  });

  test('C7 without spawn, a key that nobody holds is refused with an error of its own and stays unheld', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);

    await expect(connect(on, { spawn: undefined })).rejects.toMatchObject({ code: 'key.unheld' });

    expect(await rowCounts(on)).toEqual(NO_ROWS);
  });

  test('C11 no drone for the program is an error of its own, and nothing is left behind', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const spawn = { program: 'nobody-offers-it', args: [], env: {} };

    await expect(connect(on, { spawn, waitMs: 10_000 })).rejects.toMatchObject({
      code: 'spawn.no_drone',
    });
    await expect(connect(on, { spawn, key: keyNamed('other') })).rejects.toMatchObject({
      code: 'spawn.no_drone',
      message: 'No drone offers the program "nobody-offers-it".',
      details: { program: 'nobody-offers-it', offered: ['room'] },
    });

    expect(await rowCounts(on)).toEqual(NO_ROWS);
  });

  test('arguments and environment that the program does not allow are refused, and nothing is left behind', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);

    await expect(
      connect(on, { spawn: { program: 'room', args: ['--fast'], env: {} } }),
    ).rejects.toMatchObject({
      code: 'spawn.not_allowed',
    });

    expect(await rowCounts(on)).toEqual(NO_ROWS);
  });

  test('C36 counts granted and denied requests, by free, expired and active keys', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);

    const first = await connect(on);
    await connect(on);
    await connect(on, { key: { name: 'demo', namespace: '', tag: 'red' } }).catch(() => undefined);
    await connect(on, { key: keyNamed('other'), spawn: undefined }).catch(() => undefined);
    await age(on, first.leaseId, 60_000);
    const second = await connect(on);
    await on.keys.report(reportOf(drone, second.backendId, 'terminated', { reason: 'exited' }));
    await connect(on);

    expect(on.observed).toEqual([
      'granted free',
      'denied active',
      'denied active',
      'denied free',
      'granted expired',
      'failed exited',
      'granted free',
    ]);
  });
});

type OnStore = Pick<Keys, 'store'>;

describe.each([
  [
    'is drained',
    ({ store }: OnStore, { droneId }: SessionRef) => setDraining(store.general, droneId, true),
  ],
  ['stops', ({ store }: OnStore, ref: SessionRef) => recordGoodbye(store.vital, ref)],
])('a drone that %s between choice and commit', (_how, takeOut) => {
  test('gets no backend: another drone is chosen', async () => {
    const left: SessionRef[] = [];
    const on = await openKeys({
      afterChoice: async (here) => {
        const ref = left.pop();
        if (ref === undefined) return;
        await takeOut(here, ref);
        await aDrone(here.store.general, { droneId: 'spare' });
      },
    });
    left.push(await aDrone(on.store.general));

    const made = await connect(on);

    expect(made.droneId).toBe('spare');
    expect(await rowCounts(on)).toMatchObject({ leases: 1, backends: 1, actions: 1 });
  });

  test('gets no backend of a key that ran out, either', async () => {
    const left: SessionRef[] = [];
    const on = await openKeys({
      afterChoice: async (here) => {
        const ref = left.pop();
        if (ref !== undefined) await takeOut(here, ref);
      },
    });
    const ref = await aDrone(on.store.general);
    const former = await connect(on);
    await age(on, former.leaseId, 60_000);
    left.push(ref);

    await expect(connect(on)).rejects.toMatchObject({ code: 'spawn.no_drone' });
  });

  test('leaves nothing behind when there is no other drone', async () => {
    const only: SessionRef[] = [];
    const on = await openKeys({
      afterChoice: async (here) => {
        for (const ref of only) await takeOut(here, ref);
      },
    });
    only.push(await aDrone(on.store.general));

    await expect(connect(on)).rejects.toMatchObject({ code: 'spawn.no_drone' });

    expect(await rowCounts(on)).toEqual(NO_ROWS);
  });
});

describe('waitFor ready', () => {
  test('answers when the backend is ready, with its address', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const answers: string[] = [];

    const ready = connect(on, { waitFor: 'ready' }).then((result) => {
      answers.push('connected');
      return result;
    });
    await on.keys.report(reportOf(drone, backendId, 'starting'));
    answers.push('starting');
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: 'h:1' }));

    expect(await ready).toMatchObject({ backendId, status: 'ready', address: 'h:1' });
    expect(answers).toEqual(['starting', 'connected']);
  });

  test.each<[Partial<BackendReport>, string, object]>([
    [{ reason: 'exited', exitCode: 17 }, 'it crashed with exit code 17', { signal: null }],
    [{ reason: 'exited', exitCode: 139 }, 'it was killed by SIGSEGV', { signal: 'SIGSEGV' }],
    [{ reason: 'exited', exitCode: 0 }, 'it ended with exit code 0', { exitCode: 0 }],
    [{ reason: 'startup_timeout' }, 'it was not ready in time', { exitCode: null }],
    [{ reason: 'internal', detail: 'no free port' }, 'it could not be run: no free port', {}],
    [{ reason: 'revoked' }, 'it was stopped: its key was revoked', {}],
  ])('is refused when its backend ends instead: %j', async (how, said, details) => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const once = { waitFor: 'ready', idempotencyKey: 'once' } as const;

    const refused = connect(on, once).catch((error: unknown) => error);
    const backendId = await waitUntil(
      async () => (await on.keys.get(keyNamed('demo'), CLIENT))?.backendId,
    );
    await on.keys.report(reportOf(drone, backendId, 'waiting'));
    await on.keys.report(reportOf(drone, backendId, 'terminating', { reason: how.reason }));
    await on.keys.report(reportOf(drone, backendId, 'terminated', { ...how, output: 'a\nb' }));

    const error = await refused;
    expect(error).toMatchObject({
      code: 'backend.failed',
      retryable: false,
      message: expect.stringContaining(`before it was ready: ${said}`) as string,
      details: { backendId, droneId: drone.droneId, ...how, ...details, output: 'a\nb' },
    });
    expect((error as LeaseError).details['livedMs']).toBeGreaterThanOrEqual(0);
    expect(await actionsOf(on, backendId)).toMatchObject([{ kind: 'spawn' }]);
    // Sent again, it is told the same; without the idempotency key, a new backend is started.
    await expect(connect(on, once)).rejects.toMatchObject({ code: 'backend.failed' });
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('is refused, and may go on waiting, when its backend is not ready in two minutes', async () => {
    const time = await passingTime();
    const on = await openKeys({ databaseUrl: time.databaseUrl, clock: time.clock });
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const hinted = vi.spyOn(on.store.hints, 'next');

    const refused = expect(connect(on, { waitFor: 'ready' })).rejects.toMatchObject({
      code: 'backend.not_ready',
      retryable: true,
      details: { backendId, droneId: drone.droneId, status: 'waiting' },
    });
    // It has found the backend: nobody renews its grant, which is over as time passes.
    await waitUntil(() => hinted.mock.calls.some(([topic]) => topic === `backend:${backendId}`));
    await on.keys.report(reportOf(drone, backendId, 'waiting'));
    await time.pass(LIMITS.waitMsMax);

    await refused;
  });
});
