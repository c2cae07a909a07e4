import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** A source of numbers that gives the same ones for the same seed. */
export class Random {
  readonly #seed: number;
  readonly #generator: ReturnType<typeof xoroshiro128plus>;

  constructor(seed: number) {
    this.#seed = seed;
    this.#generator = xoroshiro128plus(seed);
  }

  /** A source of its own for a part of the world: what one part draws changes nothing for the others. */
  fork(name: string): Random {
    let hash = this.#seed ^ 0x81_1c_9d_c5;
    for (let place = 0; place < name.length; place += 1) {
      hash = Math.imul(hash ^ name.charCodeAt(place), 0x01_00_01_93);
    }
    return new Random(hash);
  }

  /** A number in `[0, 1)`. */
  next(): number {
    return this.#word() / 2 ** 32;
  }

  /** A whole number from `from` to `to`, both included. */
  whole(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.whole(0, list.length - 1)] as T;
  }

  shuffled<T>(list: readonly T[]): T[] {
    const result = [...list];
    for (let last = result.length - 1; last > 0; last -= 1) {
      const other = this.whole(0, last);
      [result[last], result[other]] = [result[other] as T, result[last] as T];
    }
    return result;
  }

  uuid(): string {
    const digits = Array.from({ length: 4 }, () => this.#word().toString(16).padStart(8, '0'));
    const text = digits.join('');
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-4${text.slice(13, 16)}-8${text.slice(17, 20)}-${text.slice(20)}`;
  }

  #word(): number {
    return this.#generator.next() >>> 0;
  }
}
