import { LeaseError } from '../kernel/errors.ts';

/** Where a reader of the event stream goes on. */
export type EventPlace =
  /** From the oldest event that is kept. */
  | { readonly at: 'oldest' }
  /** After this event; `epoch` is null where only a number was given, which is of the present one. */
  | { readonly at: 'after'; readonly epoch: number | null; readonly id: bigint };

const BIGINT_MAX = 2n ** 63n - 1n;

/**
 * The id of an event as all readers see it: its database epoch, and its number in that epoch. After a
 * restore, numbers are used again for other events.
 */
export function eventCursor(epoch: number, id: bigint | string): string {
  return `${String(epoch)}.${String(id)}`;
}

/**
 * Reads what {@link eventCursor} wrote; `oldest`, `0`, or a bare number, too.
 * @throws {LeaseError} `request.invalid` for anything else.
 */
export function parseEventPlace(text: string): EventPlace {
  if (text === 'oldest' || text === '0') return { at: 'oldest' };
  const parts = /^(?:(\d{1,9})\.)?(\d{1,19})$/u.exec(text);
  const id = BigInt(parts?.[2] ?? -1);
  if (parts === null || id > BIGINT_MAX) {
    throw new LeaseError(
      'request.invalid',
      'afterId: must be the id of an event, or "oldest" for all that are kept',
      { details: { field: 'afterId' } },
    );
  }
  return { at: 'after', epoch: parts[1] === undefined ? null : Number(parts[1]), id };
}
