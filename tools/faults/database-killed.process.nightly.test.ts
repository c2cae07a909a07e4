import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { waitUntil } from '@leasehold/testing';
import { startKillableDatabase, type KillableDatabase } from './stage/killable-database.ts';
import { machineMs } from './stage/machine-time.ts';
import { PATIENT_LADDER, FaultStage, type Answer } from './stage/stage.ts';
import { SUCCESSION_MS_MAX, expectSound, expectUnharmed } from './stage/verdict.ts';

/** Of the preset `fast`. */
const HEARTBEAT_MS = 1_000;

let postgres: KillableDatabase;
let stage: FaultStage;
let patientStage: FaultStage;
beforeAll(async () => {
  postgres = await startKillableDatabase();
  const [databaseUrl, patientUrl] = [postgres.url('leasehold'), postgres.url('patient')];
  await createDatabase(databaseUrl);
  await createDatabase(patientUrl);
  stage = await FaultStage.open({ databaseUrl });
  patientStage = await FaultStage.open({ databaseUrl: patientUrl, ladder: PATIENT_LADDER });
});
afterAll(async ({}, file) => {
  await patientStage.close(file);
  await stage.close(file);
  await postgres.close();
});

describe('a database that is killed', () => {
  test('F12 and is back before soft has lost no key that was confirmed, and the backends went on', async () => {
    const stage = patientStage;
    await stage.startDrone({ droneId: 'short-1', programs: { short: 'stubborn' } });
    const before = await stage.connect('short', 'short');
    const { pids } = await stage.untilHeard(before);
    await stage.untilRenewed(before);

    // Requests while it dies: some are answered, some are not.
    const api = stage.api();
    const answered: Answer[] = [];
    const asking = Array.from({ length: 8 }, async (_, index) => {
      const name = `last-${String(index)}`;
      answered.push(
        await api.keys.connect.mutate({ key: { name }, spawn: { program: 'short' }, waitMs: 0 }),
      );
    });
    const settled = Promise.allSettled(asking);
    await waitUntil(() => answered.length > 0, { pollMs: 1 });
    const atMs = machineMs();
    await postgres.kill();
    await postgres.restart();
    await settled;
    const fresh = await waitUntil(() => stage.connect('short-fresh', 'short'));
    console.log(
      `database killed and started again: the next connect was ready after ${String(Math.round(machineMs() - atMs))} ms`,
    );
    await stage.untilRenewed(before, 2);

    expect(answered.length).toBeGreaterThan(0);
    for (const answer of answered) {
      const again = await stage.connect(answer.key.name, 'short');
      const { backendId, leaseId, fencingToken } = answer;
      expect(again).toMatchObject({ backendId, leaseId, fencingToken, spawned: false });
    }
    await expectUnharmed(stage, { before, program: 'short', pids });
    await expectSound(stage, before, fresh, ...answered);
  });

  test('F12 for longer than hard: the backend stops by its deadline, and the key passes on with a greater token', async () => {
    await stage.startDrone({ droneId: 'long-1', programs: { long: 'stubborn' } });
    const former = await stage.connect('long', 'long');
    await stage.untilHeard(former);

    const atMs = machineMs();
    await postgres.kill();
    await stage.untilSilent(former);
    await postgres.restart();
    const backAtMs = machineMs();
    const next = await stage.successorOf(former, 'long');
    await stage.untilHeard(next.answer);

    // A drone that has sent nothing for three heartbeats is given nothing until the next one.
    const possibleAtMs = Math.max(backAtMs + HEARTBEAT_MS, stage.expiryOf(former));
    console.log(
      `database killed for ${String(Math.round(backAtMs - atMs))} ms: the next connect succeeded ${String(Math.round(next.atMs - possibleAtMs))} ms after it was possible`,
    );
    expect(next.atMs - possibleAtMs).toBeLessThan(SUCCESSION_MS_MAX);
    expect(next.answer.spawned).toBe(true);
    expect(BigInt(next.answer.fencingToken)).toBeGreaterThan(BigInt(former.fencingToken));
    await expectSound(stage, former, next.answer);
  });
});
