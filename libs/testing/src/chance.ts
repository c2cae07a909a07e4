import { randomInt } from 'node:crypto';

const { env } = process;

/**
 * How often a test repeats what chance may break: a few times in `npm test`, often in
 * `npm run test:long`. The promise is the same; only the search for a counterexample is longer.
 */
export function repetitions(counts: { readonly short: number; readonly long: number }): number {
  return env['LEASEHOLD_TEST_LONG'] === '1' ? counts.long : counts.short;
}

/**
 * In `npm test` one of three of many cases, in all other runs all of them. `from` is counted on over lists of
 * similar cases, so that each list leaves out others.
 */
export function someOf<Case>(cases: readonly Case[], from = 0): readonly Case[] {
  if (env['LEASEHOLD_TEST_SUITE'] !== 'gate') return cases;
  return cases.filter((_, at) => (at + from) % GATE_ONE_OF === 0);
}

const GATE_ONE_OF = 3;

/** In `npm test`, so that a change is what makes it fail, and not chance. */
const GATE_SEED = 30;
let seedOfRun: number | undefined;

/**
 * What a test begins with that tries at random: in `npm test` always the same, in `npm run test:all` another
 * one in each run, which is printed. `LEASEHOLD_TEST_SEED` repeats a run that failed.
 */
export function seed(): number {
  seedOfRun ??= newSeed();
  return seedOfRun;
}

function newSeed(): number {
  const wanted = env['LEASEHOLD_TEST_SEED'];
  if (wanted !== undefined) return Number(wanted);
  if (env['LEASEHOLD_TEST_SUITE'] !== 'all') return GATE_SEED;
  const random = randomInt(2 ** 31);
  process.stdout.write(`tests at random: LEASEHOLD_TEST_SEED=${String(random)}\n`);
  return random;
}
