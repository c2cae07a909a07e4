/** What `instrumentation.ts` starts in each replica, and what `schedule.ts` then decides, in real processes. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  createTestDatabase,
  freePort,
  startControllerProcess,
  startProcess,
  waitUntil,
  type TestProcess,
} from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startReceiver, type Receiver } from './testing/receiver.ts';

const APP = import.meta.dirname;
const NEXT = createRequire(import.meta.url).resolve('next/dist/bin/next');
const SECOND_MS = 1_000;
/** Long enough that a replica on a busy machine does not lose its lease. */
const TTL_MS = 5_000;
const BUILD_MS_MAX = 240_000;
const CENTS = 100;

interface Replica extends TestProcess {
  readonly url: string;
}

interface Run {
  readonly dueAtMs: number;
  readonly replica: string;
}

let pool: pg.Pool;
let receiver: Receiver;
const replicas = new Map<string, Replica>();
const endings: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  // `npm run build` has built it, from nx's cache if nothing has changed.
  if (!existsSync(path.join(APP, '.next', 'BUILD_ID'))) {
    await promisify(execFile)('npm', ['run', 'build'], { cwd: APP });
  }
  const database = await createTestDatabase();
  const home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-cron-'));
  endings.push(() => rm(home, { recursive: true, maxRetries: 10 }));
  const databaseUrl = ownUrl(database.url);
  pool = new pg.Pool({ connectionString: databaseUrl });
  await pool.query(await readFile(path.join(APP, 'schema.sql'), 'utf8'));
  const controller = await startControllerProcess({ databaseUrl: database.url, home });
  receiver = await startReceiver();
  endings.unshift(
    () => pool.end(),
    () => controller.stop(),
    () => receiver.close(),
  );
  const credentials = JSON.parse(
    await readFile(path.join(home, 'credentials.json'), 'utf8'),
  ) as Record<string, string>;
  const start = (name: string): Promise<void> =>
    startReplica(name, {
      DATABASE_URL: databaseUrl,
      LEASEHOLD_URL: controller.url,
      LEASEHOLD_TOKEN: credentials['client'] ?? '',
    });
  await Promise.all(['one', 'two', 'three'].map(start));
}, BUILD_MS_MAX);

afterAll(async () => {
  for (const replica of replicas.values()) await replica.kill();
  for (const end of endings) await end();
});

/** Its tables are those of the app, not those of Leasehold. */
function ownUrl(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.searchParams.set('options', '-c search_path=public');
  return url.href;
}

/** A process of the app as it is served, whose job is due every second. */
async function startReplica(name: string, env: Readonly<Record<string, string>>): Promise<void> {
  const port = String(await freePort());
  const replica = await startProcess({
    name: `replica ${name}`,
    args: [
      '--import',
      path.join(APP, 'testing', 'ends-with-test.mjs'),
      NEXT,
      'start',
      APP,
      '--hostname',
      '127.0.0.1',
      '--port',
      port,
    ],
    env: {
      ...env,
      REPLICA: name,
      NOTIFY_URL: receiver.url,
      CRON_PATTERN: '* * * * * *',
      CRON_TTL_MS: String(TTL_MS),
      NEXT_TELEMETRY_DISABLED: '1',
    },
  });
  const url = `http://127.0.0.1:${port}/`;
  replicas.set(name, { ...replica, url });
  const look = async (): Promise<boolean> => {
    const { ok, status } = await fetch(url);
    if (!ok) throw new Error(`${String(status)}\n${replica.log()}`);
    return true;
  };
  await waitUntil(look, { what: `the page of replica ${name}` });
}

/** In the order in which they were due. */
async function recorded(): Promise<Run[]> {
  const { rows } = await pool.query<{ due_at: Date; replica: string }>(
    'select due_at, replica from cron_run order by due_at',
  );
  return rows.map(({ due_at, replica }) => ({ dueAtMs: due_at.getTime(), replica }));
}

/** All that are recorded when this many more are. */
async function afterRuns(count: number): Promise<Run[]> {
  const before = (await recorded()).length;
  return waitUntil(async () => {
    const runs = await recorded();
    return runs.length >= before + count && runs;
  });
}

function noticesOf({ dueAtMs }: Pick<Run, 'dueAtMs'>): Receiver['notices'] {
  return receiver.notices.filter((notice) => notice.dueAtMs === dueAtMs);
}

/** Each second has one record, and none is missing. */
function expectEachInstantOnce(runs: readonly Run[]): void {
  const firstMs = runs[0]?.dueAtMs ?? 0;
  expect(runs.map(({ dueAtMs }) => dueAtMs)).toEqual(
    runs.map((_, index) => firstMs + index * SECOND_MS),
  );
}

/** A run that was done twice would have paid twice. The record and the payment are in one transaction. */
async function expectPaidOnce(): Promise<void> {
  const { rows } = await pool.query<{ cents: string; runs: string }>(
    'select cents, (select count(*) from cron_run) as runs from account',
  );
  expect(Number(rows[0]?.cents)).toBe(Number(rows[0]?.runs) * CENTS);
}

describe('a cron job in three replicas of a Next.js app', () => {
  test('its build has no links, which nx would leave out when it restores the build', async () => {
    const built = await readdir(path.join(APP, '.next'), { recursive: true, withFileTypes: true });

    expect(built.filter((entry) => entry.isFile()).map(({ name }) => name)).toContain('BUILD_ID');
    expect(built.filter((entry) => entry.isSymbolicLink()).map(({ name }) => name)).toEqual([]);
  });

  test('every due instant is carried out once', async () => {
    const runs = await afterRuns(4);

    expectEachInstantOnce(runs);
    expect(runs.map((run) => noticesOf(run).length)).toEqual(runs.map(() => 1));
    await expectPaidOnce();
  });

  test('the instant of a replica that is killed in the middle is carried out by another one, once', async () => {
    const open = receiver.hold();
    const seen = receiver.notices.length;
    const interrupted = await waitUntil(() => receiver.notices[seen]);
    await replicas.get(interrupted.replica)?.kill();
    replicas.delete(interrupted.replica);
    const before = await recorded();

    open();
    const runs = await waitUntil(async () => {
      const now = await recorded();
      return now.some(({ dueAtMs }) => dueAtMs > interrupted.dueAtMs) && now;
    });

    const takenOver = runs.find(({ dueAtMs }) => dueAtMs === interrupted.dueAtMs);
    expect(before.some(({ dueAtMs }) => dueAtMs === interrupted.dueAtMs)).toBe(false);
    expect([...replicas.keys()]).toContain(takenOver?.replica);
    expectEachInstantOnce(runs);
    await expectPaidOnce();
    // What is outside of the database was told twice, and can tell by the key.
    const notices = noticesOf(interrupted);
    expect(notices.map(({ replica }) => replica)).toEqual([
      interrupted.replica,
      takenOver?.replica,
    ]);
    expect(new Set(notices.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
  });

  test('the page of every replica shows which one ran the job last', async () => {
    await afterRuns(1);

    for (const { url } of replicas.values()) {
      const page = await (await fetch(url)).text();
      expect(page).toMatch(
        /Replica (?:one|two|three) ran the job interest last\. It was due at 2/u,
      );
    }
  });
});
