const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * A duration for people, never longer than it is: `850 ms`, `41.2 s`, `3 m 12 s`, `2 h 05 m`,
 * `4 d 03 h`. Rounded down, so that a key never seems to have more time left than it has.
 */
export function durationText(durationMs: number): string {
  const ms = Math.max(0, Math.floor(durationMs));
  if (ms < SECOND_MS) return `${String(ms)} ms`;
  if (ms < MINUTE_MS) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < HOUR_MS) return twoUnits(ms, [MINUTE_MS, 'm'], [SECOND_MS, 's']);
  if (ms < DAY_MS) return twoUnits(ms, [HOUR_MS, 'h'], [MINUTE_MS, 'm']);
  return twoUnits(ms, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

type Unit = readonly [sizeMs: number, letter: string];

function twoUnits(ms: number, [largeMs, large]: Unit, [smallMs, small]: Unit): string {
  const rest = String(Math.floor((ms % largeMs) / smallMs)).padStart(2, '0');
  return `${String(Math.floor(ms / largeMs))} ${large} ${rest} ${small}`;
}

/**
 * How long before `asOf` an instant was, both in ISO-8601 and by the same clock: the database's.
 * The clock of the machine that the command runs on is not used.
 */
export function agoText(at: string | null, asOf: string): string {
  if (at === null) return 'never';
  const elapsedMs = Date.parse(asOf) - Date.parse(at);
  return elapsedMs < 0 ? `in ${durationText(-elapsedMs)}` : `${durationText(elapsedMs)} ago`;
}
