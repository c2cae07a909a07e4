import { invariant } from '../errors/index.ts';
import type { Clock, IdSource } from '../clock.ts';

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
