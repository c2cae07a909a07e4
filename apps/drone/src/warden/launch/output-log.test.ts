import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { OutputLog, logFileOf } from './output-log.ts';

const AT = '2026-11-27T12:00:00.000Z';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-output-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function write(
  chunks: readonly (string | Buffer)[],
  options: { readonly bytesMax?: number; readonly in?: string } = {},
): Promise<OutputLog> {
  const log = new OutputLog(options.in ?? folder, 'b1', { ...options, now: () => AT });
  const writer = log.writer('stdout');
  for (const chunk of chunks) writer.write(chunk);
  writer.end();
  await finished(writer);
  return log;
}

const written = (): string =>
  readdirSync(folder)
    .toSorted()
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .join('');

describe('the output of a backend', () => {
  test('has a line for each of its lines, with time and stream, in the order of both streams', async () => {
    const log = new OutputLog(folder, 'b1', { now: () => AT });
    const [stdout, stderr] = [log.writer('stdout'), log.writer('stderr')];

    for (const [to, text] of [
      [stdout, 'one\ntw'],
      [stderr, 'failed\n'],
      [stdout, 'o\r\n'],
    ] as const) {
      await new Promise((done) => to.write(text, done));
    }
    for (const writer of [stdout, stderr]) writer.end('no end of line');
    await Promise.all([finished(stdout), finished(stderr)]);

    const said = [
      ...['stdout one', 'stderr failed', 'stdout two'],
      ...['stdout no end of line', 'stderr no end of line'],
    ];
    expect(written()).toBe(said.map((line) => `${AT} ${line}\n`).join(''));
    expect(log.isWritten).toBe(true);
  });

  test('takes three files of bounded size at most, each named by where it begins', async () => {
    const lines = Array.from({ length: 50 }, (_, nth) => `line ${String(nth).padStart(4, '0')}\n`);
    const length = `${AT} stdout ${lines[0] ?? ''}`.length;

    await write(lines, { bytesMax: 4 * length });

    const offsets = [40, 44, 48].map((nth) => nth * length);
    expect(readdirSync(folder).toSorted()).toEqual(
      offsets.map((offset) => path.basename(logFileOf(folder, 'b1', offset))),
    );
    expect(written().startsWith(`${AT} stdout line 0040\n`)).toBe(true);
    expect(written().endsWith(`${AT} stdout line 0049\n`)).toBe(true);
    for (const name of readdirSync(folder)) {
      expect(statSync(path.join(folder, name)).size).toBeLessThanOrEqual(4 * length);
    }
  });

  test('is appended to what was there, and is readable by its owner alone', async () => {
    await write(['one\n']);
    await write(['two\n']);

    expect(written()).toBe(`${AT} stdout one\n${AT} stdout two\n`);
    expect(statSync(logFileOf(folder, 'b1', 0)).mode & 0o777).toBe(0o600);
  });

  test('a line of any length is kept in parts, and characters that come in two chunks are whole', async () => {
    const letter = Buffer.from('é');

    await write(['x'.repeat(20_000), '\n', letter.subarray(0, 1), letter.subarray(1), '\n']);

    const texts = written()
      .split('\n')
      .map((line) => line.slice(`${AT} stdout `.length));
    expect(texts.join('')).toBe(`${'x'.repeat(20_000)}é`);
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(20_000);
  });

  test('a flood of empty lines does not keep others from their turn', async () => {
    let turns = 0;
    let isOver = false;
    setImmediate(function again() {
      turns += 1;
      if (!isOver) setImmediate(again);
    });
    await write(['\n'.repeat(10_000)]);
    isOver = true;

    expect(turns).toBeGreaterThan(8);
    expect(written().split('\n')).toHaveLength(10_001);
  });

  test('that cannot be written is dropped, and delays nothing', async () => {
    const log = await write(['one\n', 'two\n'], { in: path.join(folder, 'no/such/folder') });

    expect(log.isWritten).toBe(true);
  });
});
