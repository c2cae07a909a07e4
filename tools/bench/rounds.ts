/** How two sides are compared: in turns, so that what the machine does meanwhile strikes both. */

export interface Side {
  readonly name: string;
  /** One round. @returns operations per second. */
  readonly round: () => Promise<number>;
}

export interface Comparison {
  readonly ours: number;
  readonly theirs: number;
  /** The median of the ratios of neighbouring rounds: what drifts, drifts out. */
  readonly ratio: number;
}

/** Runs both sides in turns (A B, B A, …) after one round of each that does not count. */
export async function compare(ours: Side, theirs: Side, roundCount: number): Promise<Comparison> {
  await ours.round();
  await theirs.round();
  const rates = { ours: [] as number[], theirs: [] as number[] };
  for (let round = 0; round < roundCount; round += 1) {
    if (round % 2 === 0) {
      rates.ours.push(await ours.round());
      rates.theirs.push(await theirs.round());
    } else {
      rates.theirs.push(await theirs.round());
      rates.ours.push(await ours.round());
    }
  }
  return {
    ours: median(rates.ours),
    theirs: median(rates.theirs),
    ratio: median(rates.ours.map((rate, round) => rate / (rates.theirs[round] ?? Number.NaN))),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
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
