/** A moment as people write it. Pure. */

const TIME = /^\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?$/u;
const WHOLE =
  /^(?<day>\d{4}-\d{2}-\d{2})[T ](?<time>\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?<zone>Z|UTC|[+-]\d{2}:\d{2})?$/u;

/**
 * The instant that is meant: `2026-11-25 03:12`, with or without seconds and a `T`, in UTC unless it names an
 * offset; or `03:12`, which is of today. Null for anything else.
 */
export function momentOf(
  text: string,
  /** Today in UTC, such as `2026-11-25`. */
  today: string,
): string | null {
  const given = text.trim();
  const whole = WHOLE.exec(TIME.test(given) ? `${today} ${given}` : given);
  if (whole?.groups === undefined) return null;
  const { day = '', time = '', zone = 'Z' } = whole.groups;
  if (!isDay(day)) return null;
  const ms = Date.parse(`${day}T${time}${zone === 'UTC' ? 'Z' : zone}`);
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}

/** JavaScript takes 31 February for 3 March. */
function isDay(day: string): boolean {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day);
}
