import { describe, expect, onTestFinished, test } from 'vitest';
import { recordHeartbeat, type SessionRef } from '../fleet/sql/drone-sessions.ts';
import { HEARTBEAT_MS } from '../kernel/ladder.ts';
import { waitUntil } from '@leasehold/testing';
import { fillDatabase } from '../testing/explaining.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { BY } from '../testing/kernel-fixture.ts';
import {
  actionsOf,
  ageHeartbeat,
  connect,
  connectInput,
  keyNamed,
  type Keys,
  openKeys,
  OPERATOR,
  reportOf,
  rowCounts,
  statesOf,
} from '../testing/keys-fixture.ts';
import { passingTime, passWatched } from '../testing/passing-time.ts';
import type { ConnectResult, NamedConnect } from './key-types.ts';
import { createIdleStopper } from './index.ts';
import { stopIdleBackends, touchBackends } from './sql/idle-stop.ts';

const MANY_BACKENDS = `
  insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id,
    fencing_token, status, status_rank, idle_stop_seconds)
  select 'b' || i, 'd' || i % 100, 'local', gen_random_uuid(), 'room', '[]', '{}', '', 'k' || i, '',
    gen_random_uuid(), i, 'terminated', 7, 60
  from generate_series(1, 20000) i;
  insert into idle_check (backend_id, due_at)
  select 'b' || i, now() + interval '1 hour' from generate_series(1, 20000) i`;

const IDLE_SECONDS = 10;
const ADDRESS = '127.0.0.1:5000';

function sleepy(change: Partial<NamedConnect> = {}): Partial<NamedConnect> {
  return {
    spawn: { program: 'room', args: [], env: {}, idleStopSeconds: IDLE_SECONDS },
    ...change,
  };
}

/** A ready backend with an idle stop, just used. */
async function aSleeper(
  on: Keys,
  change: Partial<NamedConnect> = {},
): Promise<ConnectResult & { drone: SessionRef }> {
  const drone = await aDrone(on.store.general, { capacity: 1_000 });
  const made = await connect(on, sleepy(change));
  await on.keys.report(reportOf(drone, made.backendId, 'ready', { address: ADDRESS }));
  return { ...made, drone };
}

/** As if so much time had gone by since the backend was made, was ready, and was used last. */
async function rest({ store }: Keys, backendId: string, ms: number): Promise<void> {
  await store.general.$executeRaw`
    with aged as (
      update backend
      set last_used_at = last_used_at - ${ms}::float8 * interval '1 millisecond',
        status_at = status_at - ${ms}::float8 * interval '1 millisecond'
      where id = ${backendId}
      returning id
    )
    update idle_check c set due_at = due_at - ${ms}::float8 * interval '1 millisecond'
    from aged where c.backend_id = aged.id`;
}

/** On a clock that stands still, so that no time passes but what {@link rest} lets pass. */
async function openStill(): Promise<Keys> {
  const { databaseUrl, clock } = await passingTime();
  return openKeys({ databaseUrl, clock });
}

async function stopIdle({ store }: Keys): Promise<string[]> {
  const { stopped } = await stopIdleBackends(store, HEARTBEAT_MS.standard);
  return stopped.map(({ backendId }) => backendId);
}

describe('a backend that nobody has used for its idle time', () => {
  test('is stopped: its drone is asked to, nobody is sent to it, and it ends as idle', async () => {
    const on = await openKeys();
    const { backendId, drone } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);

    expect(await stopIdle(on)).toEqual([backendId]);

    expect((await actionsOf(on, backendId)).at(-1)).toMatchObject({
      kind: 'terminate',
      mode: 'soft',
      state: 'open',
      payload: { reason: 'external', clockId: drone.clockId },
    });
    await expect(connect(on, sleepy())).rejects.toMatchObject({ code: 'key.terminating' });
    await on.keys.report(reportOf(drone, backendId, 'terminating', { reason: 'external' }));
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'external' }));
    expect((await statesOf(on, backendId)).now).toBe('terminated idle');
    expect(await connect(on, sleepy())).toMatchObject({ spawned: true });
  });

  test('is stopped once, however often and by however many controllers it is looked for', async () => {
    const on = await openKeys();
    const other = await openKeys({ databaseUrl: on.databaseUrl });
    const { backendId } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);

    const found = await Promise.all([stopIdle(on), stopIdle(other), stopIdle(on)]);

    expect(found.flat()).toEqual([backendId]);
    expect(await stopIdle(on)).toEqual([]);
    expect((await actionsOf(on, backendId)).map(({ kind }) => kind)).toEqual([
      'spawn',
      'terminate',
    ]);
  });

  test('is not stopped a moment too early', async () => {
    const on = await openStill();
    const { backendId } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000 - 2_000);

    expect(await stopIdle(on)).toEqual([]);
  });

  test('is stopped after the end of its idle time even if the last use was found when it was looked at', async () => {
    const on = await openKeys();
    const { backendId } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);
    await connect(on, sleepy());
    expect(await stopIdle(on)).toEqual([]);

    await rest(on, backendId, IDLE_SECONDS * 1_000);

    expect(await stopIdle(on)).toEqual([backendId]);
  });
});

describe('idle time', () => {
  test('counts from when the backend is ready', async () => {
    const on = await openStill();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on, sleepy());
    await rest(on, backendId, 10 * IDLE_SECONDS * 1_000);
    expect(await stopIdle(on)).toEqual([]);

    await on.keys.report(reportOf(drone, backendId, 'ready', { address: ADDRESS }));
    await rest(on, backendId, IDLE_SECONDS * 1_000 - 2_000);
    expect(await stopIdle(on)).toEqual([]);

    await rest(on, backendId, 2_000);
    expect(await stopIdle(on)).toEqual([backendId]);
  });

  test('begins again with each connect, and not with reads', async () => {
    const on = await openKeys();
    const used = await aSleeper(on);
    const read = await aSleeper(on, { key: keyNamed('other') });
    for (const { backendId } of [used, read]) await rest(on, backendId, IDLE_SECONDS * 1_000);

    await connect(on, sleepy());
    await connect(on, { spawn: undefined });
    await on.keys.get({ name: 'other', namespace: '' }, OPERATOR);

    expect(await stopIdle(on)).toEqual([read.backendId]);
  });

  test('without one a backend is never stopped, and a connect writes nothing to it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: ADDRESS }));
    await rest(on, backendId, 1e9);
    const version = (): Promise<unknown> =>
      on.store.general
        .$queryRaw`select xmin::text, ctid::text from backend where id = ${backendId}`;
    const before = await version();

    await connect(on);

    expect(await stopIdle(on)).toEqual([]);
    expect(await version()).toEqual(before);
  });

  test('is that of the program where the request names none, and the request has its own way', async () => {
    const on = await openKeys();
    const programs = [
      {
        name: 'room',
        allowArgs: false,
        allowEnv: [],
        idleStopSeconds: 5,
        lifetimeLimitSeconds: 100,
      },
    ];
    await aDrone(on.store.general, { programs });
    const timesOf = async (name: string, times: object): Promise<unknown> => {
      const spawn = { ...connectInput().spawn, program: 'room', args: [], env: {}, ...times };
      const { backendId } = await connect(on, { key: keyNamed(name), spawn });
      const rows = await on.store.general.$queryRaw<{ times: unknown }[]>`
        select jsonb_build_array(idle_stop_seconds, lifetime_limit_seconds) as times
        from backend where id = ${backendId}`;
      return rows[0]?.times;
    };

    expect(await timesOf('none', {})).toEqual([5, 100]);
    expect(await timesOf('less', { idleStopSeconds: 3, lifetimeLimitSeconds: 7 })).toEqual([3, 7]);
    expect(await timesOf('more', { idleStopSeconds: 60, lifetimeLimitSeconds: 900 })).toEqual([
      60, 100,
    ]);
  });
});

describe('no backend is stopped for idleness', () => {
  test('whose drone does not answer, until it answers again', async () => {
    const on = await openKeys();
    const { backendId, drone } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);
    await ageHeartbeat(on, drone.droneId, 60_000);
    expect(await stopIdle(on)).toEqual([]);

    await recordHeartbeat(on.store.general, { ...drone, localTimeMs: 1_000, load: {} });
    await rest(on, backendId, 1_000);

    expect(await stopIdle(on)).toEqual([backendId]);
  });

  test('that somebody else has asked to stop: that reason counts', async () => {
    const on = await openKeys();
    const { backendId, drone } = await aSleeper(on);
    await on.keys.terminate({ backendId, mode: 'soft' }, OPERATOR, BY);
    await rest(on, backendId, IDLE_SECONDS * 1_000);

    expect(await stopIdle(on)).toEqual([]);
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'external' }));

    expect((await statesOf(on, backendId)).now).toBe('terminated external');
  });

  test('that has ended: it is forgotten', async () => {
    const on = await openKeys();
    const { backendId, drone } = await aSleeper(on);
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'exited' }));
    await rest(on, backendId, IDLE_SECONDS * 1_000);

    expect(await stopIdle(on)).toEqual([]);

    expect(await on.store.general.$queryRaw`select from idle_check`).toEqual([]);
  });
});

describe('a connect that meets a backend which is being stopped for idleness', () => {
  test('waits until it has ended, and starts a new one', async () => {
    const on = await openKeys();
    const { backendId, drone } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);
    await stopIdle(on);

    const waiting = connect(on, sleepy({ waitMs: 10_000 }));
    await waitUntil(async () => (await rowCounts(on))['waiters'] === 1);
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'external' }));

    const made = await waiting;
    expect(made.spawned).toBe(true);
    expect(made.backendId).not.toBe(backendId);
  });

  test('is told by a repeated answer that it is stopping, and an answer that is repeated in time is a use', async () => {
    const on = await openKeys();
    const idempotencyKey = 'k1';
    const { backendId } = await aSleeper(on, { idempotencyKey });
    await rest(on, backendId, IDLE_SECONDS * 1_000);
    const inTime = await connect(on, sleepy({ idempotencyKey }));
    expect(inTime).toMatchObject({ backendId, status: 'ready' });
    expect(await stopIdle(on)).toEqual([]);

    await rest(on, backendId, IDLE_SECONDS * 1_000);
    expect(await stopIdle(on)).toEqual([backendId]);
    const late = await connect(on, sleepy({ idempotencyKey }));

    expect(late).toMatchObject({ backendId, status: 'terminating' });
  });
});

describe('what the database cannot know is no idleness', () => {
  test('after a step of its clock uses are collected for a minute first', async () => {
    const time = await passingTime();
    const on = await openKeys({
      databaseUrl: time.databaseUrl,
      clock: time.clock,
      clockWatch: undefined,
    });
    const { backendId, leaseId, drone } = await aSleeper(on);
    await passWatched(time, 3_000, on);
    const alive = async (): Promise<void> => {
      await recordHeartbeat(on.store.general, { ...drone, localTimeMs: 1_000, load: {} });
      await on.store.general.$executeRaw`
        update lease set expires_at = clock_timestamp() + interval '60 seconds' where lease_id = ${leaseId}::uuid`;
    };

    await time.step(3_600_000);
    await alive();
    expect(await stopIdle(on)).toEqual([]);
    await on.store.witness.look();
    expect(await stopIdle(on)).toEqual([]);

    await passWatched(time, IDLE_SECONDS * 1_000 + 1_000, on);
    await alive();
    expect(await stopIdle(on)).toEqual([backendId]);
  });

  test('while nothing is granted, because the database was restored, nothing is stopped', async () => {
    const on = await openKeys();
    const { backendId } = await aSleeper(on);
    await rest(on, backendId, IDLE_SECONDS * 1_000);
    await on.store.general.$executeRaw`
      update database_epoch set hold_off_until = clock_timestamp() + interval '50 seconds'`;
    const held = await stopIdle(on);
    await on.store.general.$executeRaw`update database_epoch set hold_off_until = null`;

    expect(held).toEqual([]);
    await rest(on, backendId, 1_000);
    expect(await stopIdle(on)).toEqual([backendId]);
  });

  test('a controller that has just reached it waits until what is in use is used again', async () => {
    const time = await passingTime();
    const on = await openKeys({ databaseUrl: time.databaseUrl, clock: time.clock });
    const { backendId, drone } = await aSleeper(on);
    const stopper = createIdleStopper(on.store, HEARTBEAT_MS.standard);
    const { signal } = new AbortController();
    const round = async (ms: number): Promise<number> => {
      await time.pass(ms);
      await recordHeartbeat(on.store.general, { ...drone, localTimeMs: 1_000, load: {} });
      return stopper.runOnce(signal, () => undefined);
    };

    const first = [await round(IDLE_SECONDS * 1_000), await round(1_000)];
    // As long as nobody could note a use.
    const again = [await round(4_000), await round(1_900)];

    expect([...first, ...again, await round(100)]).toEqual([0, 0, 0, 0, 1]);
    expect((await actionsOf(on, backendId)).at(-1)?.kind).toBe('terminate');
  });
});

describe('uses that a gateway reports', () => {
  test('move the last use forward, never back, and tell how long the backend may be used', async () => {
    const on = await openStill();
    const { leaseId, backendId } = await aSleeper(on);
    await rest(on, backendId, 8_000);

    const [late] = await touchBackends(on.store.general, [{ leaseId, usedAgoMs: 5_000 }]);
    const [now] = await touchBackends(on.store.general, [{ leaseId, usedAgoMs: 0 }]);
    await touchBackends(on.store.general, [{ leaseId, usedAgoMs: 1e300 }]);
    const [again] = await touchBackends(on.store.general, [{ leaseId, usedAgoMs: 9_000 }]);

    expect(late).toMatchObject({ state: 'usable', leaseId, backendId, ladder: { ttlMs: 60_000 } });
    const idleOf = (used: typeof late): number =>
      used?.state === 'usable' ? (used.idleRemainingMs ?? 0) : 0;
    expect(idleOf(late)).toBeLessThanOrEqual(5_000);
    expect(idleOf(now)).toBeGreaterThan(9_000);
    expect(idleOf(again)).toBeGreaterThan(9_000);
  });

  test('are answered in their order, also for backends without idle stop, that are idle, and unknown', async () => {
    const on = await openKeys();
    const idle = await aSleeper(on);
    const plain = await connect(on, { key: keyNamed('plain') });
    await rest(on, idle.backendId, IDLE_SECONDS * 1_000);
    await stopIdle(on);
    const unknown = on.store.ids.uuid();

    const used = await touchBackends(
      on.store.general,
      [plain.leaseId, unknown, idle.leaseId, plain.leaseId].map((leaseId) => ({
        leaseId,
        usedAgoMs: 0,
      })),
    );

    expect(used).toMatchObject([
      { state: 'usable', leaseId: plain.leaseId, idleRemainingMs: null },
      { state: 'ended', leaseId: unknown },
      { state: 'ended', leaseId: idle.leaseId },
      { state: 'usable', leaseId: plain.leaseId },
    ]);
  });
});

test('a use changes no indexed column of a backend, and neither statement reads what has ended', async () => {
  const { databaseUrl } = await openKeys();
  const { client, planOf, close } = await fillDatabase(databaseUrl, MANY_BACKENDS);
  onTestFinished(close);
  // As on the connections that they are sent on.
  await client.query('set enable_seqscan = off');
  const leaseId = '00000000-0000-4000-8000-000000000000';

  const touched = await planOf((sql) => touchBackends(sql, [{ leaseId, usedAgoMs: 0 }]));
  const { store } = await openKeys();
  const stopped = await planOf((sql) =>
    stopIdleBackends(
      { ...store, transitions: sql as unknown as typeof store.transitions },
      HEARTBEAT_MS.standard,
    ),
  );

  for (const plan of [touched, stopped]) {
    expect(plan).toContain('backend');
    expect(plan).not.toMatch(/Seq Scan on (?:backend|idle_check) /u);
  }
  const { rows } = await client.query<{ indexed: string }>(
    `select pg_get_indexdef(indexrelid) as indexed from pg_index where indrelid = 'backend'::regclass`,
  );
  expect(rows.map(({ indexed }) => indexed).join()).not.toMatch(/last_used_at/u);
});
