import { useRef, useState } from 'react';

/**
 * Rows do not jump under the pointer: while a person points at a table, has the focus in it or has
 * selected rows of it, its rows stay where they are, each with its newest values; rows that came,
 * went or moved are counted, and shown on request.
 */
interface HeldRows<Row> {
  readonly rows: readonly Row[];
  /** How many rows came, went or moved since. */
  readonly changeCount: number;
}

/** Which rows to show, given the shown rows and the newest ones. Pure. */
export function holdRows<Row>(
  shown: readonly Row[],
  newest: readonly Row[],
  options: { readonly isHeld: boolean; readonly rowId: (row: Row) => string },
): HeldRows<Row> {
  const { isHeld, rowId } = options;
  if (!isHeld) return { rows: newest, changeCount: 0 };
  const newestById = new Map(newest.map((row, index) => [rowId(row), { row, index }]));
  const shownIds = new Set(shown.map(rowId));
  const came = newest.filter((row) => !shownIds.has(rowId(row))).length;
  let went = 0;
  let moved = 0;
  let lastIndex = -1;
  const rows = shown.map((row) => {
    const found = newestById.get(rowId(row));
    if (found === undefined) {
      went += 1;
      return row;
    }
    if (found.index < lastIndex) moved += 1;
    else lastIndex = found.index;
    return found.row;
  });
  // A full page that gains a row at its head loses one at its foot: one change, not two.
  const changeCount = Math.max(came, went) + moved;
  return changeCount === 0 ? { rows: newest, changeCount: 0 } : { rows, changeCount };
}

/** Where the page after the newest rows begins. */
export function cursorOf(read: {
  readonly data?: { readonly nextCursor?: string | null } | undefined;
}): string | null {
  return read.data?.nextCursor ?? null;
}

interface Shown<Row> {
  readonly identity: string | null;
  readonly rows: readonly Row[];
  readonly nextCursor: string | null;
}

/**
 * The rows to show. `identity` says what is being listed: with another filter or page the newest rows
 * are shown at once. Until they arrive, rows of the previous list are shown, and not one of them is
 * held: a user who sorts by clicking a head points at the table.
 */
export function useHeldRows<Row>(
  newest: readonly Row[],
  options: {
    /** Where the page after the newest rows begins; that of the rows that are shown is answered. */
    readonly nextCursor?: string | null;
    readonly identity: string;
    /** Whether the rows are still those of the previous list. */
    readonly isStandIn: boolean;
    readonly isHeld: boolean;
    readonly rowId: (row: Row) => string;
  },
): HeldRows<Row> & { readonly nextCursor: string | null; readonly showAll: () => void } {
  const shown = useRef<Shown<Row>>({ identity: null, rows: [], nextCursor: null });
  const [, setShownCount] = useState(0);
  const identity = options.isStandIn ? null : options.identity;
  const isHeld = options.isHeld && identity !== null && shown.current.identity === identity;
  const held = holdRows(shown.current.rows, newest, { isHeld, rowId: options.rowId });
  const newestCursor = options.nextCursor ?? null;
  // After rows that are held comes what came after them: no row is skipped.
  const nextCursor = held.changeCount === 0 ? newestCursor : shown.current.nextCursor;
  shown.current = { identity, rows: held.rows, nextCursor };
  return {
    ...held,
    nextCursor,
    showAll() {
      shown.current = { identity, rows: newest, nextCursor: newestCursor };
      setShownCount((times) => times + 1);
    },
  };
}

/** When a row was read. It changes with every read, and is shown only until the database's time is known. */
const READ_AT = 'asOf';

/** Whether two readings of a row show the same. What did not change between reads keeps its identity. Pure. */
export function isSameRow(before: unknown, after: unknown): boolean {
  if (Object.is(before, after)) return true;
  if (!isRecord(before) || !isRecord(after)) return false;
  const names = Object.keys(after);
  return (
    names.length === Object.keys(before).length &&
    names.every((name) => name === READ_AT || Object.is(before[name], after[name]))
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
