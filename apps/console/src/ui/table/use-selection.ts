import { useMemo, useState } from 'react';

/** The rows that a person has chosen, with their values at that time: a frozen selection. */
export type Selection<Item> = ReturnType<typeof useSelection<Item>>;

/** `nameOf`: what a person calls a row, for the name of its checkbox. */
export function useSelection<Item>(nameOf: (item: Item) => string) {
  const [chosen, setChosen] = useState<ReadonlyMap<string, Item>>(new Map());
  return useMemo(
    () => ({
      count: chosen.size,
      items: [...chosen.values()],
      nameOf,
      has: (id: string) => chosen.has(id),
      toggle: (id: string, item: Item): void => {
        setChosen((before) => {
          const next = new Map(before);
          if (!next.delete(id)) next.set(id, item);
          return next;
        });
      },
      setAll(entries: readonly (readonly [id: string, item: Item])[], isSelected: boolean): void {
        setChosen((before) => {
          const next = new Map(before);
          for (const [id, item] of entries) {
            if (isSelected) next.set(id, item);
            else next.delete(id);
          }
          return next;
        });
      },
      clear: () => setChosen(new Map()),
    }),
    [chosen, nameOf],
  );
}
