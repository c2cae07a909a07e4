import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import type { LogPage, LogRequest } from '@leasehold/api';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  lastOutput,
  logFileOf,
  logFilesIn,
  OutputLog,
  readOutput,
  removeOldOutput,
} from './output-log.ts';

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
      'stdout one',
      'stderr failed',
      'stdout two',
      'stdout no end of line',
      'stderr no end of line',
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

  test('is written again when it can be, tried every few seconds', async () => {
    const late = path.join(folder, 'late');
    let nowMs = 0;
    const log = new OutputLog(late, 'b1', { now: () => AT, nowMs: () => nowMs });
    const writer = log.writer('stdout');
    const say = (text: string) => new Promise((done) => writer.write(text, done));
    await say('one\n');
    mkdirSync(late);

    nowMs = 4_999;
    await say('two\n');
    nowMs = 5_000;
    await say('three\n');
    writer.end();
    await finished(writer);

    const { lines } = await readOutput(late, { backendId: 'b1' }, { isEnded: () => true });
    expect(lines.map(({ text }) => text)).toEqual(['three']);
  });

  test('goes on in another file after a line that a full disk has cut short', async () => {
    const words = [process.execPath, '--conditions=@leasehold/source', '--import', 'tsx'];
    const program = [...words, '--input-type=module', '-e', ON_A_FULL_DISK, folder];
    spawnSync('/bin/sh', ['-c', 'ulimit -f 1; exec "$@"', 'sh', ...program]);

    const { lines } = await readOutput(
      folder,
      { backendId: 'b1', from: 0 },
      { isEnded: () => true },
    );
    const next = await readOutput(
      folder,
      { backendId: 'b1', from: logFilesIn(folder).at(-1)?.offset ?? 0 },
      { isEnded: () => true },
    );

    expect(lines.map(({ text }) => text)).toEqual(['one']);
    expect(next.lines.map(({ text }) => text)).toEqual(['three']);
  });
});

/** Writes three lines where no file may be longer than 512 bytes, the third one after a while. */
const ON_A_FULL_DISK = `
  import { OutputLog } from '${new URL('output-log.ts', import.meta.url).href}';
  let nowMs = 0;
  const log = new OutputLog(process.argv[1], 'b1', { nowMs: () => nowMs });
  const writer = log.writer('stdout');
  const say = (text) => new Promise((done) => writer.write(text + '\\n', done));
  await say('one');
  await say('x'.repeat(1_000));
  while (!log.isWritten) await new Promise(setImmediate);
  nowMs = 60_000;
  await say('three');
  writer.end();
`;

const START_MS = Date.parse('2026-11-27T12:00:00.000Z');

/** Each line is a second later than the one before. */
async function writeLines(
  texts: readonly string[],
  of: { backendId?: string; bytesMax?: number } = {},
) {
  const { backendId = 'b1', ...options } = of;
  let nth = 0;
  const now = () => new Date(START_MS + 1_000 * nth++).toISOString();
  const log = new OutputLog(folder, backendId, { ...options, now });
  const writer = log.writer('stdout');
  for (const text of texts) await new Promise((done) => writer.write(`${text}\n`, done));
  writer.end();
  await finished(writer);
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_, nth) => `line ${String(nth)}`);

async function readAll(
  request: Omit<LogRequest, 'backendId'>,
  nowMs = START_MS,
): Promise<string[]> {
  const texts: string[] = [];
  let wanted: LogRequest = { backendId: 'b1', ...request };
  let page: LogPage;
  do {
    page = await readOutput(folder, wanted, { isEnded: () => true, nowMs: () => nowMs });
    texts.push(...page.lines.map(({ text }) => text));
    wanted = { backendId: 'b1', from: page.position };
  } while (page.hasMore);
  expect(page.hasEnded).toBe(true);
  return texts;
}

describe('reading the output of a backend', () => {
  test('page by page, across all its files, with every line once', async () => {
    const lines = numbered(3_000);
    await writeLines(lines, { bytesMax: 60_000 });

    expect(readdirSync(folder)).toHaveLength(3);
    expect(await readAll({})).toEqual(lines.slice(-(await readAll({})).length));
    expect((await readAll({})).length).toBeGreaterThan(2_000);
  });

  test('says where a page begins, which is later than asked for where older output is gone', async () => {
    await writeLines(numbered(100));
    await writeLines(numbered(3_000), { backendId: 'b2', bytesMax: 20_000 });
    const isEnded = () => true;

    expect((await readOutput(folder, { backendId: 'b1', from: 0 }, { isEnded })).from).toBe(0);
    const first = await readOutput(folder, { backendId: 'b2', from: 0 }, { isEnded });
    expect(first.from).toBeGreaterThan(0);
    const second = await readOutput(folder, { backendId: 'b2', from: first.position }, { isEnded });
    expect(second.from).toBe(first.position);
  });

  test('the last lines, those of the last minutes, and none', async () => {
    await writeLines(numbered(100));
    const nowMs = START_MS + 100_000;

    expect(await readAll({ tail: 3 })).toEqual(['line 97', 'line 98', 'line 99']);
    expect(await readAll({ sinceMs: 2_000 }, nowMs)).toEqual(['line 98', 'line 99']);
    expect(await readAll({ sinceMs: 10_000, tail: 1 }, nowMs)).toEqual(['line 99']);
    expect(await readAll({ tail: 0 })).toEqual([]);
  });

  test('goes on where a page ended, and leaves out a line that is not complete yet', async () => {
    await writeLines(['one']);
    const file = logFileOf(folder, 'b1', 0);
    appendFileSync(file, '2026-11-27T12:00:05.000Z stderr tw');
    const isEnded = () => false;
    const first = await readOutput(folder, { backendId: 'b1' }, { isEnded });
    appendFileSync(file, 'o\n');
    const from = first.position;

    const next = await readOutput(folder, { backendId: 'b1', from, waitMs: 10_000 }, { isEnded });

    expect(first.lines.map(({ text }) => text)).toEqual(['one']);
    expect(first.hasEnded).toBe(false);
    expect(next.lines).toEqual([{ at: '2026-11-27T12:00:05.000Z', stream: 'stderr', text: 'two' }]);
  });

  test('waits for output, and for no longer than until the backend has ended', async () => {
    let looks = 0;
    const isEnded = () => ++looks > 2;

    const page = await readOutput(folder, { backendId: 'b1', waitMs: 60_000 }, { isEnded });

    expect(page).toMatchObject({ lines: [], isThere: false, hasEnded: true });
  });

  test('waits for what is written after it was asked, also without any of the last lines', async () => {
    await writeLines(['one']);
    let looks = 0;
    const isEnded = () => {
      looks += 1;
      if (looks === 2) appendFileSync(logFileOf(folder, 'b1', 0), `${AT} stdout two\n`);
      return false;
    };

    const page = await readOutput(
      folder,
      { backendId: 'b1', tail: 0, waitMs: 60_000 },
      { isEnded },
    );

    expect(page.lines.map(({ text }) => text)).toEqual(['two']);
  });

  test('control characters are harmless: colours are left out, others are escapes', async () => {
    await writeLines([
      '\u001b[31mred\u001b[0m\ttab',
      'a\u0007b\u001b]0;title\u0007c',
      'back\bspace',
    ]);

    expect(await readAll({})).toEqual(['red\ttab', 'a\\x07bc', 'back\\x08space']);
  });

  test('the last lines for a report are twenty at most, and of bounded length', async () => {
    await writeLines(numbered(30));
    await writeLines(['x'.repeat(5_000)], { backendId: 'b2' });

    expect((await lastOutput(folder, 'b1'))?.split('\n')).toEqual(numbered(30).slice(-20));
    expect((await lastOutput(folder, 'b2'))?.length).toBe(2_000);
    expect(await lastOutput(folder, 'none')).toBeUndefined();
  });

  test('no cut leaves half a character in a report: no controller would take it', async () => {
    await writeLines([`😀${'x'.repeat(1_999)}`]);

    const last = await lastOutput(folder, 'b1');

    expect(last?.isWellFormed()).toBe(true);
    expect(last).toHaveLength(2_000);
  });

  test('output of backends that have ended is removed when it is a week old', async () => {
    await writeLines(['one']);
    await writeLines(['two'], { backendId: 'b2' });
    await writeLines(['new'], { backendId: 'b3' });
    const old = new Date(START_MS - 8 * 86_400_000);
    for (const backendId of ['b1', 'b2']) utimesSync(logFileOf(folder, backendId, 0), old, old);
    utimesSync(logFileOf(folder, 'b3', 0), new Date(START_MS), new Date(START_MS));

    await removeOldOutput(folder, (backendId) => backendId === 'b2', START_MS);

    expect(readdirSync(folder).toSorted()).toEqual(
      ['b2', 'b3'].map((backendId) => path.basename(logFileOf(folder, backendId, 0))),
    );
  });

  test.each([
    ['looked at', (file: string) => symlinkSync('/nowhere', file)],
    ['removed', (file: string) => mkdirSync(file)],
  ])('a file that cannot be %s keeps no other old one in its place', async (_what, place) => {
    await writeLines(['one']);
    await writeLines(['three'], { backendId: 'b3' });
    place(logFileOf(folder, 'b2', 0));
    const old = new Date(START_MS - 8 * 86_400_000);
    for (const backendId of ['b1', 'b2', 'b3']) {
      lutimesSync(logFileOf(folder, backendId, 0), old, old);
    }

    await removeOldOutput(folder, () => false, START_MS).catch(() => undefined);

    expect(readdirSync(folder)).toEqual([path.basename(logFileOf(folder, 'b2', 0))]);
  });
});
