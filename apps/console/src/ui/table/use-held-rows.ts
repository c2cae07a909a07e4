'use client';

import { useRef, useState } from 'react';
import { holdRows, type HeldRows } from './held-rows.ts';

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
