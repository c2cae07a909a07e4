/** How two sides are compared: in turns, so that other work of the machine affects both. */

export interface Side {
  readonly name: string;
  /** One round. @returns operations per second. */
  readonly round: () => Promise<number>;
}

export interface Comparison {
  readonly ours: number;
  readonly theirs: number;
  /** The median of the ratios of neighbouring rounds: a drift cancels out. */
  readonly ratio: number;
}

/** Runs both sides in turns (A B, B A, …) after one round of each that does not count. */
export async function compare(ours: Side, theirs: Side, roundCount: number): Promise<Comparison> {
  const [first = [], second = []] = await takeTurns([ours, theirs], roundCount);
  return compareRates(first, second);
}

/**
 * Runs all sides in turns, each round with a different one first, after one round of each that does not
 * count. @returns the rates of each side, by its place.
 */
export async function takeTurns(sides: readonly Side[], roundCount: number): Promise<number[][]> {
  for (const side of sides) await side.round();
  const rates = sides.map((): number[] => []);
  for (let round = 0; round < roundCount; round += 1) {
    for (let turn = 0; turn < sides.length; turn += 1) {
      const place = (turn + round) % sides.length;
      const rate = await sides[place]?.round();
      if (rate !== undefined) rates[place]?.push(rate);
    }
  }
  return rates;
}

/** Compares rates that were taken in turns. */
export function compareRates(ours: readonly number[], theirs: readonly number[]): Comparison {
  return {
    ours: median(ours),
    theirs: median(theirs),
    ratio: median(ours.map((rate, round) => rate / (theirs[round] ?? Number.NaN))),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/** The value that `share` of the values do not exceed: 0.5 is in the middle, 0.99 near the top. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** Runs `work` until it has taken `durationMs`, in `callerCount` loops. @returns calls per second. */
export async function rateOf(
  callerCount: number,
  durationMs: number,
  work: (caller: number) => Promise<unknown>,
): Promise<number> {
  const startedAtMs = performance.now();
  const endAtMs = startedAtMs + durationMs;
  let callCount = 0;
  const loop = async (caller: number): Promise<void> => {
    while (performance.now() < endAtMs) {
      await work(caller);
      callCount += 1;
    }
  };
  await Promise.all(Array.from({ length: callerCount }, (_, caller) => loop(caller)));
  return (callCount * 1_000) / (performance.now() - startedAtMs);
}

/** How long `work` takes, in milliseconds. */
export async function durationMsOf(work: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await work();
  return performance.now() - startedAtMs;
}
