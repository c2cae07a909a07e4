import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import path from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import { startTestController } from './testing/test-controller.ts';
import { startTestDrone } from './testing/test-drone.ts';
import { lineFor } from './testing/wire-leases.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const COUNTED =
  /^(?:apps\/controller|libs\/api|libs\/keys-core)\/src\/(?!.*(?:\btesting\/|\.test\.ts|\bindex\.ts))/u;
/** Not slices: every part of keys-core uses them. */
const BELOW_SLICES = /^libs\/keys-core\/src\/(?:kernel|postgres|holder)\//u;
const OF_CONTROLLER = /^(?:apps\/controller|libs\/api)\//u;
/** Their jobs run beside requests, on a busy machine beside each. */
const JOBS = new Set([
  'apps/controller/src/background.ts',
  'apps/controller/src/http/sockets/open-connections.ts',
]);
/** Of the most frequent job, which first waits longer than most others pause. */
const OF_LATEST_JOB = 'libs/keys-core/src/keys/sql/idle-stop.ts';
/** What runs beside a request differs from time to time. What belongs to it runs each time. */
const TIMES = 6;

/** The files in which a function runs during each of several requests, without those of `beside`. */
async function filesOf(
  request: () => Promise<unknown>,
  beside: ReadonlySet<string>,
): Promise<string[]> {
  const [, first, ...others] = await filesOfEach(request);
  const each = [...(first ?? [])].filter((file) => others.every((files) => files.has(file)));
  return each.filter((file) => !beside.has(file)).sort();
}

/** The files in which a function runs during each request; during the first one, what is made only once too. */
async function filesOfEach(request: () => Promise<unknown>): Promise<ReadonlySet<string>[]> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const files: Set<string>[] = [];
  try {
    for (let time = 0; time <= TIMES; time += 1) {
      await request();
      const { result } = await session.post('Profiler.takePreciseCoverage');
      const run = result.filter(({ functions }) =>
        functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0),
      );
      files.push(
        new Set(
          run
            .map(({ url }) => path.relative(ROOT, url.replace('file://', '')))
            .filter((file) => COUNTED.test(file) && !BELOW_SLICES.test(file) && !JOBS.has(file)),
        ),
      );
    }
    return files;
  } finally {
    await session.post('Profiler.stopPreciseCoverage');
    session.disconnect();
  }
}

/**
 * Files of keys-core that run while none of the three requests does: those of jobs, and tests before this one, in the
 * same process, may have left callers that wait. A request for its health is no call, and leads to no slice.
 */
async function filesBeside(url: string): Promise<ReadonlySet<string>> {
  const beside = new Set<string>();
  await waitUntil(
    async () => {
      const files = await filesOfEach(async () => (await fetch(`${url}/healthz`)).text());
      for (const file of files.flatMap((some) => [...some])) {
        if (!OF_CONTROLLER.test(file)) beside.add(file);
      }
      return beside.has(OF_LATEST_JOB);
    },
    // An address may ask 200 times in a second.
    { what: 'the jobs to run', pollMs: 100 },
  );
  return beside;
}

/** The files that a walkthrough names, and those that it says every call passes. */
function filesNamed(title: string): Set<string> {
  const text = readFileSync(path.join(ROOT, 'docs/walkthroughs.md'), 'utf8');
  const [intro = '', ...sections] = text.split(/^## /mu);
  const section = sections.find((one) => one.startsWith(`${title}\n`)) ?? '';
  return new Set(
    [...`${intro}${section}`.matchAll(/\]\(\.\.\/([^)]+)\)/gu)].map(([, file = '']) => file),
  );
}

/** How many files of the controller and the API a request may pass. */
const WAYS_MAX = { connect: 22, acquire: 20, renewal: 18 };

function expectWay(files: readonly string[], title: string, filesMax: number): void {
  expect(files.filter((file) => OF_CONTROLLER.test(file)).length).toBeLessThanOrEqual(filesMax);
  const named = filesNamed(title);
  expect(files.filter((file) => !named.has(file))).toEqual([]);
}

test('a connect, a renewal and a waiting acquire pass few files, and the walkthroughs name each', async () => {
  const on = await startTestController();
  const drone = await startTestDrone(on);
  const client = await on.client('client', 'ws');
  const connect = () =>
    client.keys.connect.mutate({
      key: { name: randomUUID() },
      spawn: { program: 'room' },
      idempotencyKey: randomUUID(),
    });
  const acquire = (key: string, waitMs: number) =>
    client.leases.acquire.mutate({
      namespace: ['test'],
      key,
      ttlMs: 30_000,
      waitMs,
      holder: 'a',
      localTimeMs: 1_000,
      idempotencyKey: randomUUID(),
    });

  const beside = await filesBeside(on.url);
  const connecting = await filesOf(connect, beside);
  const { leaseId, fencingToken } = await connect();
  const renewing = await filesOf(() => drone.renew([{ leaseId, fencingToken }]), beside);
  const acquiring = await filesOf(async () => {
    const key = randomUUID();
    const held = await acquire(key, 0);
    if (held.outcome !== 'granted') throw new Error('it is free');
    const next = acquire(key, 20_000);
    await waitUntil(async () => (await lineFor(on, key)).length > 0, { what: 'its place in line' });
    const { leaseId: heldId, fencingToken: token } = held.lease;
    await client.leases.release.mutate({ leaseId: heldId, fencingToken: token, result: 'ok' });
    expect(await next).toMatchObject({ outcome: 'granted' });
  }, beside);

  expectWay(connecting, 'Follow a connect', WAYS_MAX.connect);
  expectWay(renewing, 'Follow a renewal', WAYS_MAX.renewal);
  expectWay(acquiring, 'Follow a waiting acquire', WAYS_MAX.acquire);
}, 60_000);
