import { invariant } from './errors.ts';

/**
 * A monotonic clock of this machine that keeps running in suspend, in milliseconds from an arbitrary
 * start. Its readings are compared with each other only, never with another machine's.
 */
export interface Clock {
  /** The reading now. Never decreases while the machine is up. */
  nowMs(): number;
  /**
   * Calls `fn` once, as soon as the clock has reached `atMs`. Implemented by a tick, because timers
   * of the runtime stop in suspend. @returns a function that cancels it.
   */
  at(atMs: number, fn: () => void): () => void;
}

/** Where random numbers and ids come from; passed in so that tests are repeatable. */
export interface IdSource {
  /** A new UUID. */
  uuid(): string;
  /** `length` characters of `[a-z0-9]`. */
  alphanumeric(length: number): string;
  /** A number in `[0, 1)`. */
  random(): number;
}

/** A UUID: its first 48 bits, and where the random ones begin after its version. */
const TIME_DIGITS = 12;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u;

/**
 * An id for a grant that may be made, or for a request: a UUID of version 8 with 74 random bits, which begins
 * with a reading of this machine's clock. The newest ids of a process are then neighbours in every index, in the few
 * pages that are at hand; random ones change a page of their own each, and write the whole of it to
 * the log after every checkpoint. The reading orders nothing else, and nobody may read it.
 */
export function newTimedId(from: {
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly ids: Pick<IdSource, 'uuid'>;
}): string {
  const random = from.ids.uuid();
  invariant(UUID.test(random), 'a source of ids gives UUIDs');
  const time = Math.floor(from.clock.nowMs()).toString(16).padStart(TIME_DIGITS, '0');
  const first = time.slice(-TIME_DIGITS);
  return `${first.slice(0, 8)}-${first.slice(8)}-8${random.slice(15)}`;
}

// A moment as people write it. Pure.

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

/**
 * Waits for a call, or until the signal aborts. `begin` is given what is to be called, and returns how to
 * end its part; it does not call at once.
 */
export function untilCalled(
  begin: (finish: () => void) => () => unknown,
  signal?: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      end();
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const end = begin(finish);
    if (signal?.aborted === true) finish();
    else signal?.addEventListener('abort', finish);
  });
}
