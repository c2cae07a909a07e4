/** A cache that grows up to this many entries; with `max` instead, it allocates room for all of them at once. */
export function boundedTo(count: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: count, sizeCalculation: () => 1 };
}
