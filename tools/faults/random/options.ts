import { parseArgs } from 'node:util';

/** What a run is to do. */
export interface RunOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly isEachOnce: boolean;
  /** The ids of the planned faults that are to happen; all of them unless given. */
  readonly only: readonly string[] | undefined;
  readonly shrinks: boolean;
}

export const SECONDS_MIN = 20;
const SECONDS_MAX = 3_600;

/** @throws {Error} that says what is wrong with the command line. */
export function readOptions(args: readonly string[]): RunOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: 'string', default: '1' },
      seconds: { type: 'string', default: '60' },
      'each-once': { type: 'boolean', default: false },
      only: { type: 'string' },
      shrink: { type: 'boolean', default: false },
    },
  });
  return {
    seed: wholeOf('seed', values.seed, 0, 2 ** 32 - 1),
    seconds: wholeOf('seconds', values.seconds, SECONDS_MIN, SECONDS_MAX),
    isEachOnce: values['each-once'],
    only: values.only?.split(',').filter((id) => id !== ''),
    shrinks: values.shrink,
  };
}

function wholeOf(name: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new Error(`--${name} must be a whole number from ${String(min)} to ${String(max)}`);
}

/** The command that does the same again. */
export function commandOf({ seed, seconds, isEachOnce, only }: RunOptions): string {
  const words = ['npm run faults --', '--seed', String(seed), '--seconds', String(seconds)];
  if (isEachOnce) words.push('--each-once');
  if (only !== undefined) words.push('--only', only.join(',') || 'none');
  return words.join(' ');
}
