/** Runs of random faults as tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { expect } from 'vitest';

const ROOT = path.join(import.meta.dirname, '..', '..', '..');
/** Of a run of three minutes, with the start, the recovery at the end, and the judgement. */
export const RUN_MS_MAX = 420_000;

/** Runs `npm run faults` with these arguments, and prints its figures. It must end without a violation. */
export async function expectSoundRun(args: readonly string[]): Promise<void> {
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
}
