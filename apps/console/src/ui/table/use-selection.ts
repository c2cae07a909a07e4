import { useMemo, useRef, useState } from 'react';

/** The rows that a person has chosen, with their values at that time: a frozen selection. */
export type Selection<Item> = ReturnType<typeof useSelection<Item>>;

/** `nameOf`: what a person calls a row, for the name of its checkbox. */
export function useSelection<Item>(nameOf: (item: Item) => string) {
  /** The row that was chosen, or not, last: where a range begins. */
  const anchor = useRef<string | null>(null);
  const [chosen, setChosen] = useState<ReadonlyMap<string, Item>>(new Map());
  return useMemo(
    () => ({
      count: chosen.size,
      items: [...chosen.values()],
      nameOf,
      has: (id: string) => chosen.has(id),
      toggle: (id: string, item: Item): void => {
        anchor.current = id;
        setChosen((before) => {
          const next = new Map(before);
          if (!next.delete(id)) next.set(id, item);
          return next;
        });
      },
      /** Makes the rows from the last one that was toggled to this one as this one will be. */
      toggleRange(rows: readonly (readonly [id: string, item: Item])[], id: string): void {
        const range = rangeOf(rows, anchor.current, id);
        anchor.current = id;
        setChosen((before) => withAll(before, range, !before.has(id)));
      },
      setAll(entries: readonly (readonly [id: string, item: Item])[], isSelected: boolean): void {
        setChosen((before) => withAll(before, entries, isSelected));
      },
      clear: () => setChosen(new Map()),
    }),
    [chosen, nameOf],
  );
}

function withAll<Item>(
  before: ReadonlyMap<string, Item>,
  entries: readonly (readonly [id: string, item: Item])[],
  isSelected: boolean,
): ReadonlyMap<string, Item> {
  const next = new Map(before);
  for (const [id, item] of entries) {
    if (isSelected) next.set(id, item);
    else next.delete(id);
  }
  return next;
}

/** The rows between two, both included, in either direction; the second alone where the first is not there. */
export function rangeOf<Item>(
  rows: readonly (readonly [id: string, item: Item])[],
  fromId: string | null,
  toId: string,
): readonly (readonly [id: string, item: Item])[] {
  const to = rows.findIndex(([id]) => id === toId);
  const from = rows.findIndex(([id]) => id === fromId);
  if (to === -1) return [];
  if (from === -1) return rows.slice(to, to + 1);
  return rows.slice(Math.min(from, to), Math.max(from, to) + 1);
}
