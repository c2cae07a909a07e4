import { randomInt } from 'node:crypto';

const { env } = process;

/**
 * How often a test repeats what chance may break: in `npm test` `gate` times if that is given; otherwise, and in
 * `npm run test:all`, `short` times; in `npm run test:long` `long` times. The promise is the same; only the search for
 * a counterexample is longer.
 */
export function repetitions(counts: {
  readonly gate?: number;
  readonly short: number;
  readonly long: number;
}): number {
  if (env['LEASEHOLD_TEST_LONG'] === '1') return counts.long;
  return isGate() ? (counts.gate ?? counts.short) : counts.short;
}

/**
 * In `npm test` one of three of many cases, or one of `oneOf`, but at least one; in all other runs all of them. `from`
 * is counted on over lists of similar cases, so that each list leaves out others.
 */
export function someOf<Case>(cases: readonly Case[], from = 0, oneOf = 3): readonly Case[] {
  if (!isGate()) return cases;
  const some = cases.filter((_, at) => (at + from) % oneOf === 0);
  return some.length > 0 ? some : cases.slice(0, 1);
}

function isGate(): boolean {
  return env['LEASEHOLD_TEST_SUITE'] === 'gate';
}

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
