import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage, type Answer } from './stage/stage.ts';
import { SUCCESSION_MS_MAX, expectSound, expectUnharmed } from './stage/verdict.ts';

let stage: FaultStage;
let db: pg.Client;
beforeAll(async () => {
  stage = await FaultStage.open();
  db = new pg.Client(connectionOf(stage.databaseUrl));
  await db.connect();
  stage.onClose(() => db.end());
});
afterAll(({}, file) => stage.close(file));

const REVOKE_MS_MAX = 1_000;

/** Makes the controller believe that a spawn was never acknowledged, and waits until it is again. */
async function sendSpawnAgain({ backendId }: Answer): Promise<void> {
  await db.query(
    `update backend_action set acked_at = null where backend_id = $1 and kind = 'spawn'`,
    [backendId],
  );
  await waitUntil(
    async () => {
      const { rows } = await db.query<{ id: string }>(
        `select id::text from backend_action where backend_id = $1 and kind = 'spawn' and acked_at is not null`,
        [backendId],
      );
      return rows.length > 0;
    },
    { what: 'the acknowledgement of the duplicate' },
  );
}

describe.concurrent('messages that come late', () => {
  test('C49 a duplicate of a spawn changes nothing for a living backend, whether early or past its ladder', async () => {
    await stage.startDrone({ droneId: 'twice-1', programs: { twice: 'gentle' } });
    const before = await stage.connect('twice', 'twice');
    const { pids } = await stage.untilHeard(before);

    await sendSpawnAgain(before);
    await stage.untilRenewed(before, 2);
    // The deadlines that it names have passed by now.
    await sendSpawnAgain(before);
    await stage.untilRenewed(before);

    await expectUnharmed(stage, { before, program: 'twice', pids });
    await expectSound(stage, before);
  });

  test('C49 a duplicate of a spawn whose backend has ended starts nothing, also after the agent was killed', async () => {
    const drone = await stage.startDrone({ droneId: 'once-1', programs: { once: 'gentle' } });
    const before = await stage.connect('once', 'once');
    const { pids } = await stage.untilHeard(before);

    await stage.api().backends.terminate.mutate({ backendId: before.backendId, mode: 'soft' });
    await stage.untilSilent(before);
    // What the next agent knows of it is on the disk.
    await drone.agent.kill();
    await drone.startAgent();
    await sendSpawnAgain(before);
    await stage.untilReady('once-1');
    const next = await stage.connect('once', 'once');

    expect(next).toMatchObject({ spawned: true });
    expect([...(stage.life(before)?.pids ?? [])]).toEqual([...pids]);
    await expectSound(stage, before, next);
  });

  for (const { key, how, revoke } of [
    {
      key: 'never',
      how: 'and is told so at once',
      revoke: ({ leaseId }: Answer) =>
        stage.api().keys.revoke.mutate({ leaseId, mode: 'force', reason: 'test' }),
    },
    {
      key: 'unasked',
      how: 'and is not told',
      // What a forced revoke writes, without its command to the drone: only the renewal can show it.
      revoke: ({ leaseId }: Answer) =>
        db.query(
          `update lease set end_reason = 'revoked', renewable = false, fencing_token = fencing_token + 1, stops_by = expires_at where lease_id = $1`,
          [leaseId],
        ),
    },
  ]) {
    test(`C50 a drone whose grant is revoked before its spawn arrives, ${how}, starts nothing`, async () => {
      const drone = await stage.startDrone({
        droneId: `${key}-1`,
        programs: { [key]: 'stubborn' },
      });

      // The spawn is in the socket of an agent that is stopped: cancelling it cannot help.
      drone.agent.signal('SIGSTOP');
      const granted = await stage.api().keys.connect.mutate({
        key: { name: key },
        spawn: { program: key },
      });
      await revoke(granted);
      drone.agent.signal('SIGCONT');
      const { backendId } = granted;
      await waitUntil(
        async () => (await stage.api().backends.get.query({ backendId })).status === 'terminated',
        { what: 'the end of the backend that never began' },
      );
      const next = await stage.connect(key, key);

      expect(granted.spawned).toBe(true);
      expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(granted.fencingToken));
      expect(stage.lives(key).map((life) => life.backend)).toEqual([next.backendId]);
      await expectSound(stage, next);
    });
  }

  test('I15 a force revoke reaches a connected holder within a second', async () => {
    await stage.startDrone({ droneId: 'revoke-1', programs: { revoke: 'stubborn' } });
    const former = await stage.connect('revoke', 'revoke');
    await stage.untilHeard(former);

    const atMs = machineMs();
    const { leaseId } = former;
    const { outcome } = await stage.api().keys.revoke.mutate({
      leaseId,
      mode: 'force',
      reason: 'test',
    });
    const next = await stage.successorOf(former, 'revoke');
    await stage.untilHeard(next.answer);

    expect(outcome).toBe('revoked');
    const life = stage.life(former);
    console.log(
      `force revoke: the backend ended after ${String(Math.round((life?.lastAtMs ?? 0) - atMs))} ms, the next connect succeeded after ${String(Math.round(next.atMs - atMs))} ms`,
    );
    expect((life?.lastAtMs ?? Infinity) - atMs).toBeLessThan(REVOKE_MS_MAX);
    await expectSound(stage, former, next.answer);
  });

  test('I15 a force revoke of a cut-off holder frees the key at stopsBy, when its warden has stopped the backend', async () => {
    const drone = await stage.startDrone({ droneId: 'cutoff-1', programs: { cutoff: 'stubborn' } });
    const former = await stage.connect('cutoff', 'cutoff');
    await stage.startDrone({ droneId: 'cutoff-2', programs: { cutoff: 'stubborn' } });

    drone.agent.signal('SIGSTOP');
    const { leaseId } = former;
    const { stopsBy } = await stage.api().keys.revoke.mutate({
      leaseId,
      mode: 'force',
      reason: 'test',
    });
    const next = await stage.successorOf(former, 'cutoff');
    await stage.untilHeard(next.answer);
    drone.agent.signal('SIGCONT');

    expect(stopsBy).not.toBeNull();
    expect(next.atMs).toBeGreaterThan(stage.expiryOf(former) - 50);
    expect(next.atMs - stage.expiryOf(former)).toBeLessThan(SUCCESSION_MS_MAX);
    await expectSound(stage, former, next.answer);
  });
});
