/** Chance that is the same in every run, so that a new picture differs only where we changed it. */
export interface Chance {
  /** A whole number from `from` to `to`, both included. */
  int(from: number, to: number): number;
  pick<T>(from: readonly T[]): T;
  /** Whether something of this probability happens. */
  happens(probability: number): boolean;
  uuid(): string;
  /** Letters and digits, as ids have them. */
  code(length: number): string;
}

const ALPHABET = '23456789abcdefghjkmnpqrstuvwxyz';

/** The generator called mulberry32: small, and good enough for pictures. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  const hex = (length: number): string =>
    Array.from({ length }, () => int(0, 15).toString(16)).join('');
  return {
    int,
    pick(from) {
      const chosen = from[int(0, from.length - 1)];
      if (chosen === undefined) throw new Error('there is nothing to pick from');
      return chosen;
    },
    happens: (probability) => next() < probability,
    uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`,
    code: (length) => Array.from({ length }, () => ALPHABET.charAt(int(0, 30))).join(''),
  };
}
