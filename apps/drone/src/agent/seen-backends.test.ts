import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { SeenBackends } from './seen-backends.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-seen-'));
});
afterEach(() => {
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
});

describe('the memory of a drone', () => {
  test('C49 remembers a backend after a restart', () => {
    const before = SeenBackends.open(stateDir);
    before.mark({ backendId: 'b1', mark: 'started', clockId: 'c1' });
    before.mark({ backendId: 'b2', mark: 'never', clockId: 'c1' });
    before.close();

    const after = SeenBackends.open(stateDir);

    expect(after.get('b1')?.mark).toBe('started');
    expect(after.get('b2')?.mark).toBe('never');
    expect(after.get('b3')).toBeUndefined();
    after.close();
  });

  test('lists the backends that may have been started on a clock and are not known to be over', () => {
    const seen = SeenBackends.open(stateDir);
    seen.mark({ backendId: 'b1', mark: 'started', clockId: 'c1' });
    seen.mark({ backendId: 'b2', mark: 'started', clockId: 'c1' });
    seen.mark({ backendId: 'b3', mark: 'started', clockId: 'c2' });
    seen.mark({ backendId: 'b2', mark: 'done', clockId: 'c1' });

    expect(seen.unfinished('c1')).toEqual(['b1']);
    seen.close();
  });

  test('skips a line that a crash cut short, and keeps the one after it', () => {
    const before = SeenBackends.open(stateDir);
    before.mark({ backendId: 'b1', mark: 'started', clockId: 'c1' });
    before.close();
    appendFileSync(path.join(stateDir, 'backends.jsonl'), '{"backendId":"b2","ma');

    const after = SeenBackends.open(stateDir);
    after.mark({ backendId: 'b3', mark: 'started', clockId: 'c1' });
    after.close();
    const again = SeenBackends.open(stateDir);

    expect(['b1', 'b2', 'b3'].map((id) => again.get(id)?.mark)).toEqual([
      'started',
      undefined,
      'started',
    ]);
    again.close();
  });

  test('keeps the newest backends, in fewer lines than twice its bound', () => {
    const seen = SeenBackends.open(stateDir, 10);
    for (let count = 0; count < 45; count += 1) {
      seen.mark({ backendId: `b${String(count)}`, mark: 'started', clockId: 'c1' });
    }

    const lines = readFileSync(path.join(stateDir, 'backends.jsonl'), 'utf8').trim().split('\n');

    expect(lines.length).toBeLessThan(20);
    expect(seen.get('b44')).toBeDefined();
    expect(seen.get('b0')).toBeUndefined();
    seen.close();
  });
});

/** Marks three backends where no file may be longer than 512 bytes: the kernel writes a part, then nothing. */
const ON_A_FULL_DISK = `
  import { SeenBackends } from '${new URL('seen-backends.ts', import.meta.url).href}';
  const outcomeOf = (work) => { try { work(); return 'written'; } catch (error) { return error.code; } };
  const seen = SeenBackends.open(process.argv[1]);
  const line = (backendId, mark) => () => seen.mark({ backendId, mark, clockId: 'c'.repeat(300) });
  const outcomes = [['b1', 'started'], ['b2', 'started'], ['b1', 'done']].map(([id, mark]) => outcomeOf(line(id, mark)));
  process.stdout.write(JSON.stringify({ outcomes, known: ['b1', 'b2'].map((id) => seen.get(id)?.mark ?? null) }));
`;

/** What a program prints where no file may have more than 512 bytes. */
function printedWithSmallFiles(program: string): string {
  const node = [process.execPath, '--conditions=@leasehold/source', '--import', 'tsx'];
  const words = [...node, '--input-type=module', '-e', program, stateDir];
  const limited = ['-c', 'ulimit -f 1; exec "$@"', 'sh', ...words];
  return spawnSync('/bin/sh', limited, { encoding: 'utf8' }).stdout;
}

/** Fills the file, and is told of a start and of a refusal. */
const REFUSED_ON_A_FULL_DISK = `
  import { SeenBackends } from '${new URL('seen-backends.ts', import.meta.url).href}';
  const seen = SeenBackends.open(process.argv[1]);
  const clockId = 'c'.repeat(300);
  seen.mark({ backendId: 'b1', mark: 'started', clockId });
  let outcome = 'written';
  try { seen.mark({ backendId: 'b2', mark: 'started', clockId }); } catch (error) { outcome = error.code; }
  seen.mark({ backendId: 'b2', mark: 'never', clockId });
  process.stdout.write(JSON.stringify({ outcome, b2: seen.get('b2').mark }));
`;

test('on a full disk nothing can be started, and what is refused for that is known', () => {
  expect(JSON.parse(printedWithSmallFiles(REFUSED_ON_A_FULL_DISK))).toEqual({
    outcome: 'EFBIG',
    b2: 'never',
  });
});

/** Opens a memory that is longer than any file may be. */
const OPENED_ON_A_FULL_DISK = `
  import { SeenBackends } from '${new URL('seen-backends.ts', import.meta.url).href}';
  const seen = SeenBackends.open(process.argv[1]);
  seen.mark({ backendId: 'b1', mark: 'done', clockId: 'c1' });
  process.stdout.write(JSON.stringify(['b1', 'b2'].map((id) => seen.get(id)?.mark)));
`;

test('on a full disk an agent knows what the one before has written', () => {
  const before = SeenBackends.open(stateDir);
  for (const backendId of ['b1', 'b2']) {
    before.mark({ backendId, mark: 'started', clockId: 'c'.repeat(300) });
  }
  before.close();

  expect(JSON.parse(printedWithSmallFiles(OPENED_ON_A_FULL_DISK))).toEqual(['done', 'started']);
  const after = SeenBackends.open(stateDir);
  expect(['b1', 'b2'].map((id) => after.get(id)?.mark)).toEqual(['started', 'started']);
  after.close();
});

test('on a full disk, a mark that is written in part has failed, is not known, and hides no other one', () => {
  expect(JSON.parse(printedWithSmallFiles(ON_A_FULL_DISK))).toEqual({
    outcomes: ['written', 'EFBIG', 'written'],
    known: ['done', null],
  });
  // With space again, in the same file.
  const seen = SeenBackends.open(stateDir);
  expect([seen.get('b1')?.mark, seen.get('b2')]).toEqual(['started', undefined]);
  seen.mark({ backendId: 'b2', mark: 'started', clockId: 'c1' });
  seen.close();
  const after = SeenBackends.open(stateDir);
  expect(after.unfinished('c1')).toEqual(['b2']);
  after.close();
});
