import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase } from '@leasehold/keys-core/store';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../config.ts';
import { processesOf } from '../testing/command-line.ts';
import { startDatabase } from './database.ts';
import type { RunningHooks, Supervision } from './keep-running.ts';

const HOUR_MS = 3_600_000;

interface Setup {
  readonly home: string;
  readonly hooks: RunningHooks;
  /** Time passes only in pauses, each of which lasts an hour. */
  readonly supervision: Supervision;
  readonly gaveUp: unknown[];
  /** Fulfilled when the first pause is over, and the next start begins. */
  readonly restarted: Promise<void>;
}

async function setUp(): Promise<Setup> {
  const home = await mkdtemp(join(tmpdir(), 'leasehold-database-'));
  onTestFinished(() => rm(home, { recursive: true }));
  await mkdir(join(home, 'logs'));
  let nowMs = 0;
  const gaveUp: unknown[] = [];
  let restart = (): void => undefined;
  const restarted = new Promise<void>((resolve) => (restart = resolve));
  return {
    ...{ home, gaveUp, restarted },
    hooks: {
      restarting: () => undefined,
      restarted: () => undefined,
      gaveUp: (_name, death) => gaveUp.push(death),
    },
    supervision: {
      random: () => 0,
      stop: new AbortController().signal,
      time: {
        nowMs: () => nowMs,
        pause() {
          nowMs += HOUR_MS;
          restart();
          return Promise.resolve();
        },
      },
    },
  };
}

test('H-restart-count: PostgreSQL that is killed once an hour is started again each time', async () => {
  const { home, hooks, supervision, gaveUp } = await setUp();
  const config = parseConfig({ LEASEHOLD_HOME: home });
  const database = await startDatabase(config, hooks, supervision);
  onTestFinished(() => database.stop());

  for (let deaths = 0; deaths < 6; deaths += 1) {
    const { pid } = database;
    process.kill(pid ?? 0, 'SIGKILL');
    await waitUntil(() => database.pid !== pid || gaveUp.length > 0, { timeoutMs: 20_000 });
  }

  expect(gaveUp).toEqual([]);
  await expect(createDatabase(database.url)).resolves.toBe(true);
});

test('a stop while PostgreSQL is being started again leaves no PostgreSQL', async () => {
  const { home, hooks, supervision, restarted } = await setUp();
  const config = parseConfig({ LEASEHOLD_HOME: home });
  const database = await startDatabase(config, hooks, supervision);
  process.kill(database.pid ?? 0, 'SIGKILL');
  await restarted;

  await database.stop();

  expect(processesOf(home)).toEqual([]);
});
