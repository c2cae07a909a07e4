'use client';

import { useRef } from 'react';

interface Paging {
  readonly hasPrevious: boolean;
  readonly first: () => void;
  readonly previous: () => void;
  readonly next: (cursor: string) => void;
}

/**
 * Pages by cursor. A cursor leads forward only, so the visited pages are remembered; after a reload
 * in the middle, only "first" and the browser's own Back lead back.
 */
export function usePaging(
  state: { readonly after: string | null; readonly setAfter: (after: string | null) => void },
  identity: string,
): Paging {
  const trail = useRef<{ identity: string; cursors: (string | null)[] }>({ identity, cursors: [] });
  const { cursors } = trail.current;
  const at = cursors.lastIndexOf(state.after);
  const before = at > 0 ? cursors.slice(0, at) : [];
  const hasPrevious = before.length > 0;
  return {
    hasPrevious,
    first() {
      trail.current = { identity, cursors: [] };
      state.setAfter(null);
    },
    previous() {
      state.setAfter(before.at(-1) ?? null);
    },
    next(cursor) {
      const come = at >= 0 ? cursors.slice(0, at + 1) : [state.after];
      trail.current = { identity, cursors: [...come, cursor] };
      state.setAfter(cursor);
    },
  };
}
