import { useState } from 'react';
import type { Entry } from './entries.ts';

/**
 * Which line is chosen: the first one until the person has moved, and then theirs for as long as it is
 * listed. So results that arrive never move a choice that somebody has made.
 */
export function useChoice(entries: readonly Entry[]) {
  const [movedTo, setMovedTo] = useState<string | null>(null);
  const moved = entries.findIndex(({ id }) => id === movedTo);
  const at = Math.max(0, moved);
  return {
    chosen: entries[at],
    isMoved: moved !== -1,
    choose: (entry: Entry | undefined) => setMovedTo(entry?.id ?? null),
    /** By one line, around the ends. */
    move: (by: 1 | -1) =>
      setMovedTo(entries[(at + by + entries.length) % Math.max(1, entries.length)]?.id ?? null),
    reset: () => setMovedTo(null),
  };
}
