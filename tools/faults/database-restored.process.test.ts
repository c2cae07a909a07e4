import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import {
  createDatabase,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from '@leasehold/keys-core/postgres';
import { freePort, waitUntil } from '@leasehold/testing';
import { FaultStage, type Answer } from './stage/stage.ts';
import { expectSound } from './stage/verdict.ts';

let folder: string;
let postgres: EmbeddedPostgres;
let stage: FaultStage;
const dataDir = (): string => path.join(folder, 'postgres');
const copyDir = (): string => path.join(folder, 'copy');

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-restored-'));
  postgres = await startEmbeddedPostgres({ dataDir: dataDir(), port: await freePort() });
  const databaseUrl = postgres.url('leasehold');
  await createDatabase(databaseUrl);
  stage = await FaultStage.open({ databaseUrl });
  await stage.startDrone({ droneId: 'd-1', programs: { one: 'stubborn', two: 'stubborn' } });
});
afterAll(async ({}, file) => {
  await stage.close(file);
  await postgres.stop();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

/** With its owner: PostgreSQL may run as another user than the tests. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

async function start(): Promise<void> {
  const { port } = postgres;
  postgres = await startEmbeddedPostgres({ dataDir: dataDir(), port });
}

/** Puts the copy in the place of the data folder, of a PostgreSQL that was killed. */
async function putCopyBack(): Promise<void> {
  postgres.kill();
  await postgres.exited;
  await rm(dataDir(), { recursive: true });
  await copy(copyDir(), dataDir());
  await start();
}

/** The first answer about grants after the restore; earlier failures are not about them. */
async function firstWord(name: string, program: string): Promise<string | undefined> {
  return waitUntil(
    async () => {
      try {
        const key = { name };
        await stage.api().keys.connect.mutate({ key, spawn: { program }, waitMs: 0 });
        return 'granted';
      } catch (error) {
        const code = leaseholdErrorOf(error)?.code;
        return code === 'grant.hold_off' ? code : undefined;
      }
    },
    { timeoutMs: 20_000 },
  );
}

describe('C17 H-restore a copy of the data folder that is put back while a backend lives', () => {
  let former: Answer;
  const programs = ['one', 'two'] as const;
  let program: (typeof programs)[number];
  let round = 0;

  beforeEach(async () => {
    program = programs[round] ?? 'one';
    round += 1;
    // A copy of a database that knows the drone, but not the key.
    await postgres.stop();
    await rm(copyDir(), { recursive: true, force: true });
    await copy(dataDir(), copyDir());
    await start();
    former = await waitUntil(() => stage.connect(program, program), { timeoutMs: 20_000 });
    await stage.untilHeard(former);
  });

  test('under a controller that runs: nothing is granted until the backend has ended, and there are never two', async () => {
    await putCopyBack();

    expect(await firstWord(program, program)).toBe('grant.hold_off');
    const next = await stage.successorOf(former, program);
    await stage.untilHeard(next.answer);

    expect(BigInt(next.answer.fencingToken)).toBeGreaterThan(BigInt(former.fencingToken));
    await expectSound(stage, former, next.answer);
  });

  test('under a controller that has lost its memory: the drone reports the restore, and there are never two', async () => {
    const [controller] = stage.controllers;
    if (controller === undefined) throw new Error('no controller');
    await stage.untilRenewed(former);
    await controller.kill();
    await rm(path.join(stage.folder, 'home', 'witness.json'));
    await putCopyBack();
    await stage.restartController(controller);

    expect(await firstWord(program, program)).toBe('grant.hold_off');
    const next = await stage.successorOf(former, program);
    await stage.untilHeard(next.answer);

    expect(BigInt(next.answer.fencingToken)).toBeGreaterThan(BigInt(former.fencingToken));
    await expectSound(stage, former, next.answer);
  });
});
