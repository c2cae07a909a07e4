/** Durations as people type them: `90s`, `10m`, `2h`, or a number of milliseconds. */

const MS_OF = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** The milliseconds of a duration; undefined for another text. */
export function readDuration(text: string): number | undefined {
  const [, number, unit = 'ms'] = /^(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d)?$/u.exec(text) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * MS_OF[unit as keyof typeof MS_OF]);
}

/** A duration as it is typed, in the largest unit that leaves no remainder: `90s`, `10m`. */
export function durationWord(durationMs: number): string {
  if (durationMs === 0) return '0';
  const [unit, sizeMs] = Object.entries(MS_OF)
    .toReversed()
    .find(([, size]) => durationMs % size === 0) ?? ['ms', 1];
  return `${String(durationMs / sizeMs)}${unit}`;
}
