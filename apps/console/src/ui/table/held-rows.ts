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

/**
 * The rows to show. `identity` says what is being listed: with another filter or page the newest rows
 * are shown at once. Until they arrive, rows of the previous list are shown, and not one of them is
 * held: a user who sorts by clicking a head points at the table.
 */
export function useHeldRows<Row>(
  newest: readonly Row[],
  options: {
    readonly identity: string;
    /** Whether the rows are still those of the previous list. */
    readonly isStandIn: boolean;
    readonly isHeld: boolean;
    readonly rowId: (row: Row) => string;
  },
): HeldRows<Row> & { readonly showAll: () => void } {
  const shown = useRef<{ identity: string | null; rows: readonly Row[] }>({
    identity: null,
    rows: [],
  });
  const [, setShownCount] = useState(0);
  const identity = options.isStandIn ? null : options.identity;
  const isHeld = options.isHeld && identity !== null && shown.current.identity === identity;
  const held = holdRows(shown.current.rows, newest, { isHeld, rowId: options.rowId });
  shown.current = { identity, rows: held.rows };
  return {
    ...held,
    showAll() {
      shown.current = { identity, rows: newest };
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
