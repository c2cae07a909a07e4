import { LeaseError } from '../kernel/errors.ts';
import type { Count } from '../kernel/face-types.ts';
import type { Fragment, Sql } from './sql.ts';

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

/** Whether a text is a UUID as our lists show it. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(text);
}

/**
 * The place in a cursor of a list that is ordered by an instant and an id.
 * @throws {LeaseError} `request.invalid` for anything else.
 */
export function placeAfter(
  cursor: string,
  isId: (id: string) => boolean = () => true,
): [at: string, id: string] {
  const [at = '', id = ''] = decodeCursor(cursor, 2);
  if (!isPageInstant(at) || !isId(id)) throw invalidCursor();
  return [at, id];
}

/**
 * The row id in a cursor, or null without one.
 * @throws {LeaseError} `request.invalid` for a cursor that no list has returned.
 */
export function idFrom(cursor: string | undefined): string | null {
  if (cursor === undefined) return null;
  const [id = ''] = decodeCursor(cursor, 1);
  if (!/^\d{1,18}$/u.test(id)) throw invalidCursor();
  return id;
}

/**
 * Whether a text is an instant as our pages write it in their cursors, and so one that PostgreSQL
 * can read; `Date.parse` alone accepts much that PostgreSQL does not.
 */
export function isPageInstant(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u.test(text)) return false;
  const ms = Date.parse(text);
  // PostgreSQL has no year 0; a day such as February 30 is parsed as another day.
  return !Number.isNaN(ms) && !text.startsWith('0000') && new Date(ms).toISOString() === text;
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

/** Counting ends here: a number above it helps nobody, and would cost more than the page it is shown with. */
const COUNT_MAX = 200_000;

/** How many rows `from` has, which begins with a table and may have conditions. Reads no more than the bound. */
export async function boundedCount(
  sql: Sql<'general' | 'reads'>,
  from: Fragment,
  countMax: number = COUNT_MAX,
): Promise<Count> {
  const [row] = await sql.$queryRaw<{ count: number }[]>`
    select count(*)::int as count
    from (select from ${from} limit ${countMax + 1}) counted`;
  const count = row?.count ?? 0;
  return { count: Math.min(count, countMax), isExact: count <= countMax };
}

/** A log is counted in its newest rows, so many of them. */
const LOOKED_THROUGH_MAX = 100_000;

/**
 * How many rows of a log are wanted. Reads no more rows than the bound, whether they are wanted or not: what a
 * filter leaves may be rare.
 * @param rows a statement that lists the rows in which to look, newest first
 * @param wanted a condition on such a row, whose alias is `v`
 */
export async function boundedLogCount(
  sql: Sql<'reads'>,
  { rows, wanted }: { readonly rows: Fragment; readonly wanted: Fragment },
  lookedThroughMax: number = LOOKED_THROUGH_MAX,
): Promise<Count> {
  const [row] = await sql.$queryRaw<{ count: number; isWhole: boolean }[]>`
    select count(*) filter (where ${wanted})::int as count,
      count(*) <= ${lookedThroughMax}::int as "isWhole"
    from (${rows} limit ${lookedThroughMax + 1}) v`;
  return { count: row?.count ?? 0, isExact: row?.isWhole ?? true };
}
