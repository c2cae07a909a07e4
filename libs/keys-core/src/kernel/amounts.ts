/** Amounts for people. Pure. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** `512 B`, `1.5 KiB`, `64 MiB`: three digits or fewer, with a tenth below ten. */
export function bytesText(bytes: number): string {
  let value = Math.max(0, bytes);
  let unit = 0;
  // What would be rounded to the next unit is that already.
  while (value >= 1_023.5 && unit < UNITS.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 9.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ''}`;
}

/** `12 %`, `< 1 %`: a share of 1. More than all is possible: `150 %` are one processor and a half. */
export function percentText(share: number): string {
  if (share > 0 && share < 0.005) return '< 1 %';
  return `${(Math.max(0, share) * 100).toFixed(0)} %`;
}
