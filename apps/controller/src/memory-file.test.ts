import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { LIMITS } from '@leasehold/keys-core';
import { expect, onTestFinished, test } from 'vitest';
import { openMemoryFile } from './database.ts';

const BOOT = 'this boot';
const WATCH = { atMs: 5_000, lowestMs: 1_000.25, highestMs: 1_002, watchedSince: 900_000 };

function aHome(): string {
  const home = mkdtempSync(path.join(os.tmpdir(), 'leasehold-memory-'));
  onTestFinished(() => {
    rmSync(home, { recursive: true, maxRetries: 10 });
  });
  return home;
}

test('what was kept is remembered across restarts, and only its owner can read it', async () => {
  const home = path.join(aHome(), 'not-there-yet');
  const memory = { longestTtlMs: 3_600_000, stamp: 'a stamp', watch: WATCH };

  const before = openMemoryFile(home, BOOT).remembered;
  await openMemoryFile(home, BOOT).keep(memory);

  expect(before).toEqual({ longestTtlMs: 0 });
  expect(openMemoryFile(home, BOOT).remembered).toMatchObject(memory);
  expect(statSync(path.join(home, 'witness.json')).mode & 0o777).toBe(0o600);
});

test('after a reboot the watch of the clock is forgotten, and the rest is not', async () => {
  const home = aHome();
  await openMemoryFile(home, BOOT).keep({ longestTtlMs: 1, stamp: 'a stamp', watch: WATCH });

  expect(openMemoryFile(home, 'another boot').remembered).toEqual({
    longestTtlMs: 1,
    stamp: 'a stamp',
    watch: undefined,
  });
});

test('after many writes at once the file has the newest memory, and the longest TTL of all', async () => {
  const home = aHome();
  const file = openMemoryFile(home, BOOT);

  await Promise.all(
    [60_000, 7_200_000, 60_000].map((longestTtlMs, index) =>
      file.keep({ longestTtlMs, stamp: `stamp ${String(index)}` }),
    ),
  );

  expect(openMemoryFile(home, BOOT).remembered).toMatchObject({
    longestTtlMs: 7_200_000,
    stamp: 'stamp 2',
  });
  expect(readdirSync(home)).toEqual(['witness.json']);
});

test.each([
  ['witness.json', ''],
  ['witness.json', '{"version":1'],
  ['witness.json', '{"version":1,"longestTtlMs":-1}'],
  ['witness.json', '{"version":2,"longestTtlMs":1}'],
])(
  'F20b a file %s with the text %j counts as the longest possible TTL, never a shorter one',
  (name, text) => {
    const home = aHome();
    writeFileSync(path.join(home, name), text);

    expect(openMemoryFile(home, BOOT).remembered).toEqual({ longestTtlMs: LIMITS.ttlMsMax });
  },
);
