import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { aDrone } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { openSession, recordHeartbeat } from './drone-sessions.ts';
import { getDrone, setDraining, setLost } from './drones.ts';

/** So long that a busy machine does not make a drone of a test unreachable. */
const HEARTBEAT_MS = 60_000;

function aSession(droneId: string, clockId: string): Parameters<typeof openSession>[1] {
  return { droneId, clockId, datacenter: 'local', programs: [], version: 'test', capacity: 1 };
}

describe('drone session', () => {
  test('gives every session of a drone a greater number, also when many open at once', async () => {
    const { store } = await openKernel();
    const clockId = randomUUID();

    const numbers = await Promise.all(
      Array.from({ length: 20 }, () => openSession(store.general, aSession('d1', clockId))),
    );

    expect([...numbers].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });

  test('C47 a new clock voids the stored heartbeat, the same clock keeps it', async () => {
    const { store } = await openKernel();
    const { droneId, clockId } = await aDrone(store.general);

    await openSession(store.general, aSession(droneId, clockId));
    const kept = await getDrone(store.general, droneId, HEARTBEAT_MS);
    await openSession(store.general, aSession(droneId, randomUUID()));
    const voided = await getDrone(store.general, droneId, HEARTBEAT_MS);

    expect(kept.heartbeatAt).not.toBeNull();
    expect(voided).toMatchObject({
      heartbeatAt: null,
      heartbeatAgeMs: null,
      status: 'unreachable',
    });
  });

  test('stores the isolation that a drone reports, and claims none for a drone that reports nothing', async () => {
    const { store } = await openKernel();
    const clockId = randomUUID();
    const isolation = {
      user: 'own',
      pidNamespace: true,
      privateProc: true,
      hiddenHome: true,
      noNewPrivs: true,
      detail: 'nothing is missing',
    } as const;

    await openSession(store.general, { ...aSession('told', clockId), isolation });
    await openSession(store.general, aSession('silent', clockId));

    const told = await getDrone(store.general, 'told', HEARTBEAT_MS);
    const silent = await getDrone(store.general, 'silent', HEARTBEAT_MS);
    expect(told.isolation).toEqual(isolation);
    expect(silent.isolation).toBeNull();
  });

  test('accepts a heartbeat of the newest session and its clock only', async () => {
    const { store } = await openKernel();
    const older = await aDrone(store.general, { heartbeatAgeMs: null });
    const session = await openSession(store.general, aSession(older.droneId, older.clockId));
    const beat = { droneId: older.droneId, localTimeMs: 5, load: { backends: 0 } };

    const ofOlder = recordHeartbeat(store.general, {
      ...beat,
      clockId: older.clockId,
      session: older.session,
    });
    await expect(ofOlder).rejects.toMatchObject({ code: 'session.superseded' });
    const ofOtherClock = recordHeartbeat(store.general, {
      ...beat,
      clockId: randomUUID(),
      session,
    });
    await expect(ofOtherClock).rejects.toMatchObject({ code: 'session.superseded' });
    expect((await getDrone(store.general, older.droneId, HEARTBEAT_MS)).heartbeatAt).toBeNull();

    await recordHeartbeat(store.general, { ...beat, clockId: older.clockId, session });
    expect((await getDrone(store.general, older.droneId, HEARTBEAT_MS)).status).toBe('ready');
  });

  test('shows what the drone reported last, and nothing that it reported under another clock', async () => {
    const { store } = await openKernel();
    const ref = await aDrone(store.general, { heartbeatAgeMs: null });
    const seen = (): ReturnType<typeof getDrone> =>
      getDrone(store.general, ref.droneId, HEARTBEAT_MS);
    expect(await seen()).toMatchObject({ load: null, roundTripMs: null, isConnected: true });

    const warm = [{ program: 'room', count: 1, wanted: 2, problem: null }];
    const load = { backends: 3, roundTripMs: 1.5, warm };
    const answer = await recordHeartbeat(store.general, { ...ref, localTimeMs: 5, load });
    expect(answer).toEqual({ draining: false });
    expect(await seen()).toMatchObject({ load: { backends: 3 }, roundTripMs: 1.5, warm });

    await store.general
      .$executeRaw`update drone set heartbeat_at = heartbeat_at - interval '10 minutes'`;
    expect(await seen()).toMatchObject({ isConnected: false, status: 'unreachable', warm: [] });
    await openSession(store.general, aSession(ref.droneId, randomUUID()));
    expect(await seen()).toMatchObject({ load: null, roundTripMs: null, isConnected: true });
    await setLost(store.general, ref.droneId);
    expect(await seen()).toMatchObject({ isConnected: false });
  });

  test('answers a heartbeat with whether the drone is drained', async () => {
    const { store } = await openKernel();
    const ref = await aDrone(store.general);
    await store.general.$executeRaw`update drone set draining = true`;

    const answer = await recordHeartbeat(store.general, { ...ref, localTimeMs: 5, load: {} });

    expect(answer).toEqual({ draining: true });
  });

  test('a drone that was marked lost is back with its next session, and stays drained', async () => {
    const { store } = await openKernel();
    const { droneId, clockId } = await aDrone(store.general);
    await setLost(store.general, droneId);
    expect((await getDrone(store.general, droneId, HEARTBEAT_MS)).status).toBe('lost');

    await openSession(store.general, aSession(droneId, clockId));

    expect(await getDrone(store.general, droneId, HEARTBEAT_MS)).toMatchObject({
      lostAt: null,
      draining: true,
    });
  });

  test('a drone that was undrained, or has opened another session, since it was drained for it is not lost', async () => {
    const { store } = await openKernel();
    const { droneId, clockId } = await aDrone(store.general);
    const seen = (): ReturnType<typeof getDrone> => getDrone(store.general, droneId, HEARTBEAT_MS);
    const { session } = await setDraining(store.general, droneId, true);

    await setDraining(store.general, droneId, false);
    await setLost(store.general, droneId, session);
    expect(await seen()).toMatchObject({ lostAt: null, draining: false });
    await setDraining(store.general, droneId, true);
    const newer = await openSession(store.general, aSession(droneId, clockId));
    await setLost(store.general, droneId, session);
    expect(await seen()).toMatchObject({ lostAt: null, draining: true });

    await setLost(store.general, droneId, newer);
    expect((await seen()).status).toBe('lost');
  });

  test('draining reports whether it changed anything, and refuses an unknown drone', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);

    expect(await setDraining(store.general, droneId, true)).toMatchObject({ changed: true });
    expect(await setDraining(store.general, droneId, true)).toMatchObject({ changed: false });
    await expect(setDraining(store.general, 'nobody', true)).rejects.toMatchObject({
      code: 'drone.not_found',
    });
  });

  test('draining waits for a connect that has already chosen the drone', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);
    const order: string[] = [];
    let drained: Promise<unknown> = Promise.resolve();

    await store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select id from drone where id = ${droneId} for key share`;
      drained = setDraining(store.general, droneId, true).then(() => order.push('drained'));
      // The drain waits for the lock once the server shows a waiting statement.
      for (;;) {
        // Not in the transaction, which would see the same state every time.
        const [row] = await store.general.$queryRaw<{ waiting: number }[]>`
          select count(*)::int as waiting from pg_stat_activity
          where wait_event_type = 'Lock' and datname = current_database()`;
        if ((row?.waiting ?? 0) > 0) break;
      }
      order.push('connected');
    });
    await drained;

    expect(order).toEqual(['connected', 'drained']);
  });
});
