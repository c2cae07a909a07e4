import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findMigrationsDir, migrate, planMigration } from '@leasehold/keys-core/postgres';
import { bundleOf, startProcess, waitUntil, type TestProcess } from '@leasehold/testing';
import { missing, tokensThatDidNotGrow } from '../faults/databases/stage/judge-load.ts';
import { Load } from '../faults/databases/stage/load.ts';
import { bundleProgram } from '../faults/leases/stage/build-program.ts';
import type { HolderSettings } from '../faults/leases/stage/holder.ts';
import { allWords } from '../faults/leases/stage/words.ts';
import { machineMs } from '../faults/stage/machine-time.ts';
import { type Answer, FaultStage, PATIENT_LADDER } from '../faults/stage/stage.ts';
import { expectSound, expectUnharmed } from '../faults/stage/verdict.ts';
import { openEmptyDatabase, type EmptyDatabase } from './empty-database.ts';
import { buildPrevious, type PreviousBuild } from './previous/build-previous.ts';

const TEST_MS_MAX = 180_000;
/** Of the lease that a service holds all the time: lost no sooner than half of this after a renewal. */
const HELD_TTL_MS = 30_000;
/** A fresh lease of the load, which nobody gives back. */
const KEPT_TTL_MS = 60_000;
/** What must be acknowledged before the next step, so that each step is one under load. */
const GRANTS_PER_STEP = 40;
const PROGRAM = 'room';
/** Soft comes later than any replacement on a busy machine. */
const LADDER = { ...PATIENT_LADDER, renewAfterMs: 1_000 };
const HEARTBEAT_MS = '400';

/** A backend that was started on the way. */
interface Started {
  readonly before: Answer;
  readonly pids: ReadonlySet<string>;
}

let previous: PreviousBuild;
let database: EmptyDatabase;
let on: FaultStage;

beforeAll(async () => {
  previous = await buildPrevious();
  database = await openEmptyDatabase();
  const { url: databaseUrl } = database;
  on = await FaultStage.open({
    databaseUrl,
    controllers: 2,
    entry: previous.controller,
    ladder: LADDER,
    env: { LEASEHOLD_HEARTBEAT_MS: HEARTBEAT_MS },
  });
}, TEST_MS_MAX);
afterAll(async ({}, file) => {
  await on.close(file);
  await database[Symbol.asyncDispose]();
});

/** A service with the client library of the previous version: services are upgraded last. */
async function startService(): Promise<TestProcess> {
  const source = path.join(previous.folder, 'tools/faults/leases/stage/holder.ts');
  const tasks = on.controllers.map(({ url }, index) => ({
    url,
    key: `service-${String(index)}`,
    ttlMs: HELD_TTL_MS,
  }));
  const settings = { token: on.token, namespace: 'held', tasks } satisfies HolderSettings;
  const service = await startProcess({
    name: 'service',
    args: [await bundleProgram(source), JSON.stringify(settings)],
    env: {},
  });
  on.onClose(() => service.kill());
  await waitUntil(() => allWords([service], 'held').length === tasks.length, {
    what: 'the leases of the service',
  });
  return service;
}

/** Stops a controller as a service manager does, and starts another one at its address. */
async function replaceController(index: number, entry: string): Promise<void> {
  const former = on.controller(index);
  expect(await former.stop()).toBe(0);
  await on.restartController(former, entry);
}

/** As the agent before: it leaves its backends to the warden, and the next one adopts them. */
async function replaceAgent(entry: string): Promise<void> {
  const drone = on.drone('d-1');
  const former = drone.agent;
  former.signal('SIGUSR2');
  expect(await former.exited).toBe(0);
  await drone.startAgent(entry);
}

describe('an upgrade from the previous version, and back, under load', () => {
  test(
    'loses no acknowledged grant, hands out growing tokens and kills no healthy backend',
    async () => {
      const stage = on;
      const urls = stage.controllers.map(({ url }) => url);
      // The drone's own file, which its warden is started from too.
      const [formerDrone, newDrone] = await Promise.all([
        copyTo(stage.folder, previous.drone, 'drone-former.mjs'),
        copyTo(stage.folder, bundleOf('drone'), 'drone-new.mjs'),
      ]);
      await stage.startDrone({
        droneId: 'd-1',
        programs: { [PROGRAM]: 'stubborn' },
        controllerUrls: urls,
        entry: formerDrone,
      });
      const before = await stage.connect('room', PROGRAM);
      const { pids } = await stage.untilHeard(before);
      const service = await startService();
      const load = new Load(
        urls.map((url) => stage.api('admin', url)),
        KEPT_TTL_MS,
      );
      const started: Started[] = [];

      /** One step of the upgrade, after which everything works at both addresses. */
      const step = async (what: string, work: () => Promise<unknown>): Promise<void> => {
        await work();
        const count = load.released.length;
        await waitUntil(() => load.released.length >= count + GRANTS_PER_STEP, {
          what: `grants after ${what}`,
        });
        for (const [index, url] of urls.entries()) {
          const answer = await stage.api('admin', url).keys.connect.mutate({
            key: { name: `${what}, ${String(index)}` },
            spawn: { program: PROGRAM },
            waitFor: 'ready',
          });
          expect(answer, what).toMatchObject({ status: 'ready', spawned: true });
          started.push({ before: answer, pids: (await stage.untilHeard(answer)).pids });
        }
        await stage.untilRenewed(before);
        await expectUnharmed(stage, { before, program: PROGRAM, pids });
      };

      const migrations = findMigrationsDir();
      const { planned } = await planMigration(database.url, migrations);
      await step('no change', () => Promise.resolve());
      await step('the migration', () => migrate(database.url, migrations));
      await step('the new controller', () => replaceController(0, bundleOf('controller')));
      await step('the new controllers', () => replaceController(1, bundleOf('controller')));
      await step('the new agent', () => replaceAgent(newDrone));
      await step('the former agent', () => replaceAgent(formerDrone));
      await step('a former controller', () => replaceController(0, previous.controller));
      await step('the former controllers', () => replaceController(1, previous.controller));
      await load.stop();

      console.log(
        `from ${previous.name} and back: ${String(planned.length)} migrations, ${String(load.granted.length)} grants acknowledged, ${String(started.length)} backends started meanwhile`,
      );
      expect(planned.filter(({ olderMayStart }) => !olderMayStart)).toEqual([]);
      expect(await missing(on, ['granted', 'taken_over'], load.granted)).toEqual([]);
      expect(await missing(on, ['released'], load.released)).toEqual([]);
      expect(tokensThatDidNotGrow(load.granted)).toEqual([]);
      const kept = await on.held('load');
      expect(stillHeld(load).filter(({ key, token }) => kept.get(key) !== token)).toEqual([]);
      expect(allWords([service], 'lost')).toEqual([]);
      // Healthy is also what was started on the way.
      for (const one of started) await expectUnharmed(stage, { ...one, program: PROGRAM });
      await expectSound(stage, before, ...started.map((one) => one.before));
    },
    TEST_MS_MAX,
  );
});

/** Of the load's grants that nobody gives back, those that cannot have expired. */
function stillHeld(load: Load) {
  const nowMs = machineMs();
  const released = new Set(load.released.map(({ leaseId }) => leaseId));
  return load.granted.filter(
    ({ key, leaseId, atMs }) =>
      !key.startsWith('lane-') && !released.has(leaseId) && nowMs - atMs < KEPT_TTL_MS / 2,
  );
}

async function copyTo(folder: string, file: string, name: string): Promise<string> {
  const copy = path.join(folder, name);
  await copyFile(file, copy);
  return copy;
}
