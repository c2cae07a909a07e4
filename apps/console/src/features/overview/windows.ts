/** The time spans that the overview can show. */
export const WINDOWS = [
  { minutes: 15, label: '15 min' },
  { minutes: 60, label: '1 h' },
  { minutes: 360, label: '6 h' },
  { minutes: 1_440, label: '24 h' },
] as const;

export const DEFAULT_WINDOW_MINUTES = 60;

/** `in 1 h`, to be read after a number. */
export function windowText(minutes: number): string {
  const known = WINDOWS.find((window) => window.minutes === minutes);
  return `in ${known?.label ?? `${String(minutes)} min`}`;
}
