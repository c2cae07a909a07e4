import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase } from '@leasehold/keys-core/store';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../config.ts';
import { startDatabase } from './database.ts';

const HOUR_MS = 3_600_000;

test('H-restart-count: PostgreSQL that is killed once an hour is started again each time', async () => {
  const home = await mkdtemp(join(tmpdir(), 'leasehold-database-'));
  onTestFinished(() => rm(home, { recursive: true }));
  await mkdir(join(home, 'logs'));
  let nowMs = 0;
  const gaveUp: unknown[] = [];
  const database = await startDatabase(
    parseConfig({ LEASEHOLD_HOME: home }),
    {
      restarting: () => undefined,
      restarted: () => undefined,
      gaveUp: (_name, death) => gaveUp.push(death),
    },
    {
      random: () => 0,
      stop: new AbortController().signal,
      time: {
        nowMs: () => nowMs,
        pause() {
          nowMs += HOUR_MS;
          return Promise.resolve();
        },
      },
    },
  );
  onTestFinished(() => database.stop());

  for (let deaths = 0; deaths < 6; deaths += 1) {
    const { pid } = database;
    process.kill(pid ?? 0, 'SIGKILL');
    await waitUntil(() => database.pid !== pid || gaveUp.length > 0, { timeoutMs: 20_000 });
  }

  expect(gaveUp).toEqual([]);
  await expect(createDatabase(database.url)).resolves.toBe(true);
});
