/** `npm run faults`: see tools/faults.mjs. */
import { commandOf, readOptions, type RunOptions } from './options.ts';
import { figuresOf, lineOf } from './report/figures.ts';
import { writeReport } from './report/report.ts';
import { plannedFor, run } from './run.ts';
import { secondsFor, shrink } from './schedule/shrink.ts';

const SHOWN_MAX = 30;

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    interrupted.abort(new Error('interrupted'));
  });
}

/** @returns whether no promise was broken. */
async function runOnce(options: RunOptions): Promise<boolean> {
  for (const { id, atMs, kind, target } of plannedFor(options)) {
    console.log(`${id} at ${(atMs / 1_000).toFixed(1)} s: ${kind.name} ${target}, ${kind.what}`);
  }
  const result = await run(options, interrupted.signal);
  const { history, violations } = result;
  const report = await writeReport(options, result);
  console.log(`\nreport: ${report}`);
  for (const { invariant, atMs, text } of violations.slice(0, SHOWN_MAX)) {
    console.log(`${invariant} at ${((atMs - history.beganAtMs) / 1_000).toFixed(1)} s: ${text}`);
  }
  if (violations.length > 0) console.log(`again: ${commandOf(options)}`);
  console.log(lineOf(options, figuresOf(history, violations)));
  return violations.length === 0;
}

/** Runs a schedule again and again, with fewer faults each time, and only for as long as they take. */
async function runSmaller(options: RunOptions): Promise<void> {
  const plan = plannedFor(options);
  const shortFor = (only: readonly string[]): RunOptions => ({
    ...options,
    seconds: secondsFor(only, plan, options),
    only,
  });
  const ids = plan.map(({ id }) => id);
  const smallest = await shrink(ids, async (only) => {
    console.log(`trying ${only.join(',')}`);
    return !(await runOnce(shortFor(only)));
  });
  // The whole schedule may have failed by something that no part of it shows.
  const found = smallest.length === ids.length ? options : shortFor(smallest);
  console.log(`still fails: ${commandOf(found)}`);
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  const isSound = await runOnce(options);
  if (isSound) return 0;
  if (options.shrinks) {
    await runSmaller(options);
  }
  return 1;
}

// Everything is closed by now. A connection that a fault has frozen must not keep a run that is over.
process.exit(await main());
