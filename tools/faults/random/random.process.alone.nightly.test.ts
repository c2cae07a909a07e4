import { randomInt } from 'node:crypto';
import { repetitions } from '@leasehold/testing';
import { describe, test } from 'vitest';
import { expectSoundRun, RUN_MS_MAX } from './sound-run.ts';

const RUNS_COUNT = repetitions({ short: 1, long: 20 });
/** Other schedules each time; the title of a run that fails has its seed. */
const SEEDS = Array.from({ length: RUNS_COUNT }, () => randomInt(1_000_000));

/** Runs that have failed, as `--shrink` prints them: each with what was wrong as its name. */
const KEPT: readonly { readonly name: string; readonly args: string }[] = [
  {
    name: 'a refusal after a wait named a holder of before the request',
    args: '--seed 2 --seconds 90 --each-once',
  },
  {
    name: 'a grant that was over before its answer was found had a deadline after its request',
    args: '--seed 102 --seconds 180',
  },
];

describe('I1 to I16 hold, and everything recovers in time', () => {
  test.each(SEEDS)(
    'in three minutes of the faults of seed %i',
    (seed) => expectSoundRun(['--seconds', '180', '--seed', String(seed)]),
    RUN_MS_MAX,
  );

  test.each(KEPT)('$name', ({ args }) => expectSoundRun(args.split(' ')), RUN_MS_MAX);
});
