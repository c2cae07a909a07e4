/** `leasehold up` on a real file system that is full, and has space again later. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  createControllerClient,
  isUnreachable,
  leaseholdErrorOf,
  type ControllerApi,
} from '@leasehold/client';
import { createSmallDisk, waitUntil, type SmallDisk } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  killPart,
  readRun,
  startCommand,
  untilRunning,
  UP_ARGS,
  type Started,
} from '../testing/command-line.ts';

const DISK_MEGABYTES = 96;
const TTL_MS = 600_000;
const NEXT_START_MS = 30_000;

let disk: SmallDisk;
/** As this process sees it. */
let home: string;
let up: Started;
let api: ControllerApi;
let loneController: Started;
/** The fencing token of every grant that was acknowledged, by its key. */
const acknowledged = new Map<string, string>();

function startOnDisk(): void {
  up = startCommand(
    [...UP_ARGS, '--no-console'],
    { LEASEHOLD_HOME: join(disk.folder, 'home') },
    { prefix: disk.prefix },
  );
}

async function connect(): Promise<void> {
  await untilRunning(up);
  const { admin: token } = JSON.parse(await readFile(join(home, 'credentials.json'), 'utf8')) as {
    admin: string;
  };
  ({ api } = createControllerClient({
    url: readRun(home).controllerUrl,
    token,
    transport: 'http',
  }));
}

/** Asks for a lease that nobody has. @returns `granted`, or the code of the error. */
async function acquire(key: string): Promise<string> {
  try {
    const answer = await api.leases.acquire.mutate({
      namespace: ['disk'],
      key,
      ttlMs: TTL_MS,
      holder: 'test',
      localTimeMs: 0,
      comment: 'x'.repeat(1_000),
    });
    if (answer.outcome === 'granted') acknowledged.set(key, answer.lease.fencingToken);
    return answer.outcome;
  } catch (error) {
    if (isUnreachable(error)) return 'unreachable';
    const failure = leaseholdErrorOf(error);
    const reason = failure?.details['reason'];
    const code = failure?.code ?? String(error);
    return typeof reason === 'string' ? `${code} ${reason}` : code;
  }
}

async function heldTokens(): Promise<Map<string, string | null>> {
  const views = [...acknowledged.keys()].map(async (key) => {
    const view = await api.leases.get.query({ namespace: ['disk'], key });
    return [key, view?.phase === 'held' ? view.fencingToken : null] as const;
  });
  return new Map(await Promise.all(views));
}

beforeAll(async () => {
  disk = await createSmallDisk(DISK_MEGABYTES);
  home = join(disk.outside, 'home');
  startOnDisk();
  await connect();
}, 90_000);

afterAll(async () => {
  for (const { child, ended } of [loneController, up]) {
    child.kill('SIGTERM');
    await ended;
  }
  await disk.remove();
});

test('on a full disk requests fail only with store.unavailable, which reports the reason', async () => {
  expect(await acquire('before')).toBe('granted');
  await disk.fill();

  const answers = new Set<string>();
  for (let round = 0; !answers.has('store.unavailable disk_full'); round += 1) {
    const keys = Array.from({ length: 20 }, (_, index) => `${String(round)}-${String(index)}`);
    for (const answer of await Promise.all(keys.map(acquire))) answers.add(answer);
  }

  answers.delete('granted');
  expect([...answers]).toEqual(['store.unavailable disk_full']);
});

test('a controller that starts on a full disk waits for space, and logs that', async () => {
  loneController = startCommand(
    ['controller'],
    {
      DATABASE_URL: readRun(home).databaseUrl,
      LEASEHOLD_HOME: join(disk.folder, 'second-home'),
      LEASEHOLD_PORT: '0',
      LEASEHOLD_PRESET: 'fast',
    },
    { prefix: disk.prefix },
  );

  const said = await waitUntil(
    () => /"msg":"[^"]*waiting for space"/u.exec(loneController.said().stdout)?.[0],
    { timeoutMs: NEXT_START_MS },
  );

  expect(said).toBe('"msg":"a disk is full: waiting for space"');
});

test('PostgreSQL that ends on a full disk is restarted until there is space, and acknowledged grants are kept', async () => {
  const before = readRun(home);
  for (const pid of [before.pids.postgres, before.pids.controller]) {
    killPart(pid);
  }
  await waitUntil(() =>
    up.said().stdout.includes('PostgreSQL could not be started: its disk is full'),
  );

  await disk.free();

  await waitUntil(async () => (await acquire('after')) === 'granted', { timeoutMs: NEXT_START_MS });
  await waitUntil(() => loneController.said().stdout.includes('controller answers'), {
    timeoutMs: NEXT_START_MS,
  });
  expect(await heldTokens()).toEqual(acknowledged);
});

test('leasehold up that starts on a full disk waits for space, and prints that', async () => {
  up.child.kill('SIGTERM');
  await up.ended;
  await disk.fill();
  startOnDisk();
  await waitUntil(() => up.said().stdout.includes('waiting for space on a disk'), {
    timeoutMs: NEXT_START_MS,
  });

  await disk.free();
  await connect();

  expect(await heldTokens()).toEqual(acknowledged);
});
