/** Chance that a seed decides: the same seed, the same choices. */
export interface Random {
  /** In [0, 1). */
  next(): number;
  /** A whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number;
  /** True with this chance. */
  chance(share: number): boolean;
  pick<T>(items: readonly T[]): T;
  shuffled<T>(items: readonly T[]): T[];
}

/** The generator mulberry32. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    whole,
    chance: (share) => next() < share,
    pick<T>(items: readonly T[]): T {
      if (items.length === 0) throw new Error('there is nothing to pick from');
      return items[whole(0, items.length - 1)] as T;
    },
    shuffled<T>(items: readonly T[]): T[] {
      const result = [...items];
      for (let last = result.length - 1; last > 0; last -= 1) {
        const other = whole(0, last);
        [result[last], result[other]] = [result[other] as T, result[last] as T];
      }
      return result;
    },
  };
}
