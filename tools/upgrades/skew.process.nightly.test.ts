import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bundleOf } from '@leasehold/testing/stack';
import { waitUntil, type ControllerProcess } from '@leasehold/testing';
import { FaultStage } from '../faults/stage/stage.ts';
import { expectSound, expectUnharmed } from '../faults/stage/verdict.ts';
import { openEmptyDatabase, type EmptyDatabase } from './empty-database.ts';
import { buildPrevious } from './previous/build-previous.ts';

/** With room for the replacement of an agent on a busy machine. */
const LADDER = {
  LEASEHOLD_HEARTBEAT_MS: '400',
  LEASEHOLD_KEY_RENEW_MS: '1000',
  LEASEHOLD_KEY_SOFT_MS: '8000',
  LEASEHOLD_KEY_HARD_MS: '9000',
  LEASEHOLD_KEY_EXPIRE_MS: '10500',
};
/** So many renewals, one every second, end after the expiry of the first grant. */
const RENEWALS_PAST_EXPIRY = 11;
const TEST_MS_MAX = 120_000;

interface Versions {
  readonly controller: ControllerProcess;
  /** The file of a drone. */
  readonly drone: string;
}

let database: EmptyDatabase;
let stage: FaultStage;
let former: Versions;
let current: Versions;

beforeAll(async () => {
  const previous = await buildPrevious();
  database = await openEmptyDatabase();
  // First the new one: the other one is started on the database that it has migrated.
  stage = await FaultStage.open({ databaseUrl: database.url, env: LADDER });
  const [first] = stage.controllers;
  if (first === undefined) throw new Error('no controller');
  current = { controller: first, drone: await copyOf(bundleOf('drone'), 'current') };
  former = {
    controller: await stage.startController({ entry: previous.controller }),
    drone: await copyOf(previous.drone, 'former'),
  };
}, TEST_MS_MAX);
afterAll(async ({}, file) => {
  await stage.close(file);
  await database[Symbol.asyncDispose]();
});

/** A drone's own file: its warden is started from it too. */
async function copyOf(file: string, name: string): Promise<string> {
  const copy = path.join(stage.folder, `drone-${name}.mjs`);
  await copyFile(file, copy);
  return copy;
}

/** A whole life of a backend at one controller, with an agent of each version in turn. */
async function expectToWork(of: {
  readonly name: string;
  readonly controller: ControllerProcess;
  readonly first: string;
  readonly next: string;
}): Promise<void> {
  const { name, controller, first, next } = of;
  const drone = await stage.startDrone({
    ...{ droneId: name, programs: { [name]: 'stubborn' }, controllerUrls: [controller.url] },
    entry: first,
  });
  const api = stage.api('admin', controller.url);
  const before = await stage.connect(name, name);
  const { pids } = await stage.untilHeard(before);
  await stage.untilRenewed(before, RENEWALS_PAST_EXPIRY);
  await expectUnharmed(stage, { before, program: name, pids });

  const { agent } = drone;
  await drone.startAgent(next);
  // The newest agent is obeyed; the former ends, and stops nothing.
  expect(await agent.exited).toBe(1);
  await stage.untilRenewed(before, RENEWALS_PAST_EXPIRY);
  await expectUnharmed(stage, { before, program: name, pids });

  await api.backends.terminate.mutate({ backendId: before.backendId, mode: 'hard' });
  await waitUntil(
    async () =>
      (await api.backends.get.query({ backendId: before.backendId })).status === 'terminated',
    { what: `the end of ${before.backendId}` },
  );
  const after = await stage.connect(name, name);
  expect(BigInt(after.fencingToken)).toBeGreaterThan(BigInt(before.fencingToken));
  await stage.untilHeard(after);
  await expectSound(stage, before, after);
}

describe.concurrent('agent and controller one version apart', () => {
  test(
    'a former agent at a new controller: connect, renewals past the expiry, a new agent that keeps the backend, terminate',
    async () => {
      const { controller } = current;
      await expectToWork({
        name: 'up',
        ...{ controller, first: former.drone, next: current.drone },
      });
    },
    TEST_MS_MAX,
  );

  test(
    'a new agent at a former controller: connect, renewals past the expiry, a former agent that keeps the backend, terminate',
    async () => {
      const { controller } = former;
      await expectToWork({
        name: 'down',
        ...{ controller, first: current.drone, next: former.drone },
      });
    },
    TEST_MS_MAX,
  );
});
