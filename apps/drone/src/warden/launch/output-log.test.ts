import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { OutputLog } from './output-log.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-output-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function writtenTo(file: string, chunks: readonly string[], bytesMax: number): Promise<void> {
  const log = new OutputLog(file, bytesMax);
  for (const chunk of chunks) log.write(chunk);
  log.end();
  await finished(log);
}

describe('the output of a backend', () => {
  test('takes three files of bounded size at most, the newest output in the first', async () => {
    const file = path.join(folder, 'b1.stdout.log');
    const chunks = Array.from(
      { length: 50 },
      (_, index) => `line ${String(index).padStart(4, '0')}\n`,
    );

    await writtenTo(file, chunks, 100);

    expect(readdirSync(folder).toSorted()).toEqual([
      'b1.stdout.log',
      'b1.stdout.log.1',
      'b1.stdout.log.2',
    ]);
    expect(readFileSync(file, 'utf8').endsWith('line 0049\n')).toBe(true);
    for (const name of readdirSync(folder)) {
      expect(statSync(path.join(folder, name)).size).toBeLessThanOrEqual(100);
    }
  });

  test('is appended to what was there, and is readable by its owner alone', async () => {
    const file = path.join(folder, 'b1.stdout.log');

    await writtenTo(file, ['one\n'], 100);
    await writtenTo(file, ['two\n'], 100);

    expect(readFileSync(file, 'utf8')).toBe('one\ntwo\n');
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('that cannot be written is dropped, and delays nothing', async () => {
    const file = path.join(folder, 'no/such/folder/b1.stdout.log');

    await expect(writtenTo(file, ['one\n', 'two\n'], 100)).resolves.toBeUndefined();
  });
});
