import { describe, test } from 'vitest';
import { expectSoundRun, RUN_MS_MAX } from './sound-run.ts';

const SEEDS = Array.from({ length: 20 }, (_, index) => index + 1);

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
