import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { LIMITS } from '@leasehold/keys-core';
import { readLongestTtl, writeLongestTtl } from './longest-ttl-file.ts';

function aHome(): string {
  const home = mkdtempSync(path.join(os.tmpdir(), 'leasehold-ttl-'));
  onTestFinished(() => {
    rmSync(home, { recursive: true });
  });
  return home;
}

test('the longest TTL is remembered across restarts', () => {
  const home = path.join(aHome(), 'not-there-yet');

  const before = readLongestTtl(home);
  writeLongestTtl(home, 3_600_000);

  expect(before).toBe(0);
  expect(readLongestTtl(home)).toBe(3_600_000);
});

test.each(['', 'soon', '-1', '1.5', '99999999999'])(
  'F20 a file that says %j is taken for the longest there can be, and never for a shorter one',
  (text) => {
    const home = aHome();
    writeFileSync(path.join(home, 'longest-ttl-ms'), text);

    expect(readLongestTtl(home)).toBe(LIMITS.ttlMsMax);
  },
);
