import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.join(import.meta.dirname, '..', '..', '..');
const LONG_RUNS = 20;
const RUNS = [
  { args: ['--seconds', '90', '--seed', '1', '--each-once'], name: 'every fault once in 90 s' },
  ...Array.from({ length: LONG_RUNS }, (_, index) => ({
    args: ['--seconds', '180', '--seed', String(index + 1)],
    name: `three minutes of the faults of seed ${String(index + 1)}`,
  })),
];
/** With the start, the recovery at the end, and the judgement. */
const RUN_MS_MAX = 360_000;

test.each(RUNS)(
  'I1 to I16 hold, and everything recovers in time: $name',
  async ({ args }) => {
    const child = spawn(process.execPath, ['tools/faults.mjs', ...args], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
    }
    const [code] = (await once(child, 'close')) as [number | null];
    const figures = printed.trim().split('\n').at(-1);
    console.log(figures);
    expect(code, printed).toBe(0);
    expect(figures).toMatch(/^0 violations, \d+ operations/u);
  },
  RUN_MS_MAX,
);
