'use client';

import { useRef, useState } from 'react';
import { holdRows, type HeldRows } from './held-rows.ts';

/**
 * The rows to show. `identity` says what is being listed: with another filter or page the newest
 * rows are shown at once.
 */
export function useHeldRows<Row>(
  newest: readonly Row[],
  options: {
    readonly identity: string;
    readonly isHeld: boolean;
    readonly rowId: (row: Row) => string;
  },
): HeldRows<Row> & { readonly showAll: () => void } {
  const shown = useRef<{ identity: string; rows: readonly Row[] }>({ identity: '', rows: [] });
  const [, setShownCount] = useState(0);
  const isHeld = options.isHeld && shown.current.identity === options.identity;
  const held = holdRows(shown.current.rows, newest, { isHeld, rowId: options.rowId });
  shown.current = { identity: options.identity, rows: held.rows };
  return {
    ...held,
    showAll() {
      shown.current = { identity: options.identity, rows: newest };
      setShownCount((times) => times + 1);
    },
  };
}
