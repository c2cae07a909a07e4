import { describe, expect, test } from 'vitest';
import { listEvents } from '../events/index.ts';
import { recordHeartbeat, type SessionRef } from '../fleet/sql/drone-sessions.ts';
import type { EventKind } from '../kernel/face-types.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import {
  CLIENT,
  connect,
  keyNamed,
  type Keys,
  openKeys,
  OPERATOR,
  reportOf,
} from '../testing/keys-fixture.ts';
import { BY, UNAUDITED } from '../testing/kernel-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';
import type { BackendReport } from './key-types.ts';
import { countCrashLoops } from './sql/key-failures.ts';

const CRASHED: Partial<BackendReport> = { reason: 'exited', exitCode: 17, output: 'no table' };
const KEY = { namespace: '', name: 'demo' };

async function openPassing() {
  const time = await passingTime();
  const on = await openKeys({ databaseUrl: time.databaseUrl, clock: time.clock });
  const drone = await aDrone(on.store.general);
  /** Its drone goes on to send heartbeats. */
  const pass = async (ms: number): Promise<void> => {
    await time.pass(ms);
    await recordHeartbeat(on.store.vital, { ...drone, localTimeMs: ms, load: { backends: 0 } });
  };
  return { pass, on, drone };
}

/** Starts a backend, which ends. */
async function run(
  on: Keys,
  drone: SessionRef,
  end: Partial<BackendReport> = CRASHED,
  before?: () => Promise<void>,
): Promise<string> {
  const { backendId } = await connect(on);
  if (before !== undefined) {
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: 'h:1' }));
    await before();
  }
  await on.keys.report(reportOf(drone, backendId, 'terminated', end));
  return backendId;
}

const failuresOf = (on: Keys) => on.keys.failures(KEY, CLIENT);

describe('backends of a key that fail one after another', () => {
  test('delay the next start from the third on, each twice as long, up to a minute', async () => {
    const { pass, on, drone } = await openPassing();
    const delays: number[] = [];
    for (let nth = 0; nth < 11; nth += 1) {
      await run(on, drone);
      const found = await failuresOf(on);
      const delayMs = Date.parse(found?.startAt ?? '') - Date.parse(found?.failedAt ?? '');
      delays.push(delayMs / 1_000);
      await pass(delayMs);
    }

    expect(delays).toEqual([0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(await failuresOf(on)).toMatchObject({ failures: 11 });
  });

  test('are told to a connect that does not wait, with the last of them', async () => {
    const { on, drone } = await openPassing();
    await run(on, drone);
    await run(on, drone);
    const backendId = await run(on, drone);

    const refused = connect(on, { waitMs: 0 });

    await expect(refused).rejects.toMatchObject({
      code: 'backend.crash_loop',
      retryable: true,
      message: expect.stringMatching(
        /^The last 3 backends of this key have failed, since 2030-\S+Z; of the last one, it crashed with exit code 17\. The next start may be in 1 s\.$/u,
      ) as string,
      details: { remainingMs: 1_000, failures: 3, backendId, exitCode: 17, output: 'no table' },
    });
  });

  test('are told at once to a connect whose wait is over before the next start', async () => {
    const { on, drone } = await openPassing();
    for (let nth = 0; nth < 3; nth += 1) await run(on, drone);

    await expect(connect(on, { waitMs: 999 })).rejects.toMatchObject({
      code: 'backend.crash_loop',
      details: { remainingMs: 1_000 },
    });
  });

  test('let a connect that waits start the next one when it is time', async () => {
    const { pass, on, drone } = await openPassing();
    for (let nth = 0; nth < 3; nth += 1) await run(on, drone);

    const waiting = connect(on, { waitMs: 5_000 });
    await pass(1_000);

    expect(await waiting).toMatchObject({ spawned: true });
  });

  test('do not include a start that a drone refused, which neither counts nor starts the count again', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    await run(on, drone);

    await run(on, drone, { reason: 'internal', refused: true, detail: 'the drone is full' });

    expect(await failuresOf(on)).toMatchObject({ failures: 1 });
    expect(await connect(on, { waitMs: 0 })).toMatchObject({ spawned: true });
  });

  test.each<[string, Partial<BackendReport>, number | undefined]>([
    ['one that ends without a failure', { reason: 'exited', exitCode: 0 }, undefined],
    ['one that was revoked', { reason: 'revoked' }, undefined],
    ['one that crashes after it was ready for a minute', CRASHED, 61_000],
  ])('%s starts the count again', async (_what, end, readyMs) => {
    const { pass, on, drone } = await openPassing();
    await run(on, drone);
    await run(on, drone);
    await run(on, drone, end, () => pass(readyMs ?? 0));

    expect((await failuresOf(on))?.failures).toBe(readyMs === undefined ? undefined : 1);
    expect(await connect(on, { waitMs: 0 })).toMatchObject({ spawned: true });
  });

  test('the report of an end from before them, repeated by its drone, does not start the count again', async () => {
    const { on, drone } = await openPassing();
    const healthy = await run(on, drone, { reason: 'revoked' });
    for (let nth = 0; nth < 3; nth += 1) await run(on, drone);

    await on.keys.report(reportOf(drone, healthy, 'terminated', { reason: 'revoked' }));

    expect(await failuresOf(on)).toMatchObject({ failures: 3 });
  });

  test('an end from before them that is reported late does not start the count again', async () => {
    const { pass, on, drone } = await openPassing();
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: 'h:1' }));
    // Its key expires, as that of a drone that was cut off.
    await pass(120_000);
    for (let nth = 0; nth < 3; nth += 1) await run(on, drone);

    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'key_expired' }));

    expect(await failuresOf(on)).toMatchObject({ failures: 3 });
  });

  test('one that was never ready and one that fails after ten minutes', async () => {
    const { pass, on, drone } = await openPassing();

    await run(on, drone, { reason: 'exited', exitCode: 0 });
    expect(await failuresOf(on)).toMatchObject({ failures: 1 });
    await run(on, drone, { reason: 'startup_timeout' });
    expect(await failuresOf(on)).toMatchObject({ failures: 2 });
    await pass(601_000);
    await run(on, drone, { reason: 'internal' });

    expect(await failuresOf(on)).toMatchObject({ failures: 1 });
  });

  test('are an event each from the third on, which only a reader that names it gets', async () => {
    const { pass, on, drone } = await openPassing();
    await run(on, drone);
    await run(on, drone);
    const third = await run(on, drone);
    await pass(1_000);
    const fourth = await run(on, drone);

    const events = async (kinds?: EventKind[]) =>
      (await listEvents(on.store.reads, { kinds, limit: 100 }, null)).items;
    expect(await events(['crash_loop'])).toMatchObject([
      { detail: { failures: 4, backendId: fourth, delayMs: 2_000 } },
      {
        face: 'key',
        name: 'demo',
        actor: `drone:${drone.droneId}`,
        detail: { failures: 3, backendId: third, reason: 'exited', exitCode: 17, delayMs: 1_000 },
      },
    ]);
    expect((await events()).map(({ kind }) => kind)).not.toContain('crash_loop');
  });

  test('stand beside their key in lists, until one has been ready for a minute', async () => {
    const { pass, on, drone } = await openPassing();
    const listed = async () => (await on.keys.list({ limit: 10 }, CLIENT)).items[0]?.failing;
    await run(on, drone);
    await run(on, drone);
    const third = await run(on, drone);
    const failing = { failures: 3, backendId: third, reason: 'exited', exitCode: 17 };
    expect(await listed()).toMatchObject(failing);
    expect(await on.keys.get(KEY, CLIENT)).toMatchObject({ failing });
    expect(await countCrashLoops(on.store.guests)).toMatchObject({ count: 1 });

    await pass(1_000);
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: 'h:1' }));
    expect(await listed()).toMatchObject(failing);
    await pass(61_000);

    expect(await listed()).toBeNull();
    expect(await countCrashLoops(on.store.guests)).toEqual({ count: 0, since: null });
  });

  test('of which none is the third are no crash loop', async () => {
    const { on, drone } = await openPassing();
    await run(on, drone);
    await run(on, drone);

    expect(await countCrashLoops(on.store.guests)).toEqual({ count: 0, since: null });
  });

  test('of a report that is sent twice count once', async () => {
    const { on, drone } = await openPassing();
    const backendId = await run(on, drone);

    await on.keys.report(reportOf(drone, backendId, 'terminated', CRASHED));

    expect(await failuresOf(on)).toMatchObject({ failures: 1, backendId });
    expect(on.observed.filter((seen) => seen === 'failed exited')).toHaveLength(1);
  });

  test('are forgotten when an operator resets them, and are not shown to strangers', async () => {
    const { on, drone } = await openPassing();
    for (let nth = 0; nth < 3; nth += 1) await run(on, drone);
    const stranger = { ...OPERATOR, namespaces: ['other'] };

    expect(await on.keys.failures(KEY, stranger)).toBeNull();
    expect(await on.keys.resetFailures(KEY, stranger, BY)).toEqual({ changed: false });
    await expect(connect(on, { waitMs: 0 })).rejects.toMatchObject({ code: 'backend.crash_loop' });
    expect(await on.keys.resetFailures({ ...KEY, reason: 'fixed' }, OPERATOR, BY)).toEqual({
      changed: true,
    });
    expect(await on.keys.resetFailures(KEY, OPERATOR, BY)).toEqual({ changed: false });

    expect(await connect(on, { waitMs: 0, key: keyNamed('demo') })).toMatchObject({
      spawned: true,
    });
    expect(await on.store.general.$queryRaw`select * from audit`).toMatchObject([
      { ...BY, action: 'keys.resetFailures', resource: 'key:/demo', reason: 'fixed' },
    ]);
  });

  test('are kept when their reset cannot be audited', async () => {
    const { on, drone } = await openPassing();
    await run(on, drone);

    await expect(on.keys.resetFailures(KEY, OPERATOR, UNAUDITED)).rejects.toThrow();

    expect(await failuresOf(on)).toMatchObject({ failures: 1 });
  });
});
