import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openBoundedLog } from './bounded-log.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bounded-log-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, maxRetries: 10 });
});

describe('openBoundedLog', () => {
  test('sets a full log aside, and keeps two files', async () => {
    const path = join(directory, 'a.log');
    const log = openBoundedLog(path, 10);

    for (const text of ['first\n', 'second\n', 'third\n']) log.write(Buffer.from(text));
    log.close();

    expect(await readFile(path, 'utf8')).toBe('third\n');
    expect(await readFile(`${path}.1`, 'utf8')).toBe('second\n');
  });

  test('appends to the log of an earlier run', async () => {
    const path = join(directory, 'a.log');
    for (const text of ['one\n', 'two\n']) {
      const log = openBoundedLog(path);
      log.write(Buffer.from(text));
      log.close();
    }

    expect(await readFile(path, 'utf8')).toBe('one\ntwo\n');
  });

  test('loses lines and throws nothing when it cannot be written', () => {
    const log = openBoundedLog('/dev/full');

    expect(() => {
      log.write(Buffer.from('lost\n'));
    }).not.toThrow();
    log.close();
  });
});
