/** The time spans that the overview can show. */
export const WINDOWS = [
  { minutes: 15, label: '15 min', words: '15 minutes' },
  { minutes: 60, label: '1 h', words: 'hour' },
  { minutes: 360, label: '6 h', words: '6 hours' },
  { minutes: 1_440, label: '24 h', words: '24 hours' },
] as const;

export const DEFAULT_WINDOW_MINUTES = 60;

/** `in the last hour`, to be read after a number. */
export function windowText(minutes: number): string {
  const known = WINDOWS.find((window) => window.minutes === minutes);
  return `in the last ${known?.words ?? `${String(minutes)} minutes`}`;
}
