import { LeaseError } from '../../kernel/errors/index.ts';

/** An opaque cursor for a place in a list that is ordered by these values. */
export function encodeCursor(place: readonly string[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/**
 * The values of a cursor that {@link encodeCursor} made.
 * @throws {LeaseError} `request.invalid` for anything else.
 */
export function decodeCursor(cursor: string, valueCount: number): string[] {
  let place: unknown;
  try {
    place = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch (cause) {
    throw invalidCursor(cause);
  }
  if (!isTextList(place) || place.length !== valueCount) throw invalidCursor();
  return place;
}

function isTextList(value: unknown): value is string[] {
  return (
    Array.isArray(value) && value.every((item) => typeof item === 'string' && !item.includes('\0'))
  );
}

/** The error for a cursor that no list of ours returned. */
export function invalidCursor(cause?: unknown): LeaseError {
  return new LeaseError('request.invalid', 'cursor: must be one that the list answered', {
    details: { field: 'cursor' },
    cause,
  });
}

/** Cuts a list that was read with one row more than requested, and returns where the next page begins. */
export function pageOf<Item>(
  rows: readonly Item[],
  limit: number,
  placeOf: (item: Item) => readonly string[],
): { items: Item[]; nextCursor: string | null } {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return { items, nextCursor: isMore ? encodeCursor(placeOf(last)) : null };
}
