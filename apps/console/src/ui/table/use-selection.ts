import { useMemo, useState } from 'react';

/** The rows that a person has chosen, with their values at that time: a frozen selection. */
export interface Selection<Item> {
  readonly count: number;
  readonly items: readonly Item[];
  /** What a person calls a row: the name of its checkbox. */
  nameOf(item: Item): string;
  has(id: string): boolean;
  toggle(id: string, item: Item): void;
  setAll(entries: readonly (readonly [id: string, item: Item])[], isSelected: boolean): void;
  clear(): void;
}

export function useSelection<Item>(nameOf: (item: Item) => string): Selection<Item> {
  const [chosen, setChosen] = useState<ReadonlyMap<string, Item>>(new Map());
  return useMemo(
    () => ({
      count: chosen.size,
      items: [...chosen.values()],
      nameOf,
      has: (id) => chosen.has(id),
      toggle(id, item) {
        setChosen((before) => {
          const next = new Map(before);
          if (!next.delete(id)) next.set(id, item);
          return next;
        });
      },
      setAll(entries, isSelected) {
        setChosen((before) => {
          const next = new Map(before);
          for (const [id, item] of entries) {
            if (isSelected) next.set(id, item);
            else next.delete(id);
          }
          return next;
        });
      },
      clear() {
        setChosen(new Map());
      },
    }),
    [chosen, nameOf],
  );
}
