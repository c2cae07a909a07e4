import { useQueryClient } from '@tanstack/react-query';
import type { RefObject } from 'react';
import { useShortcut } from '../shortcuts/use-shortcut.ts';

/** `j` and `k` go from row to row, by the first link of each; `x` selects; `r` refreshes. */
export function useRowKeys(
  body: RefObject<HTMLTableSectionElement | null>,
  select: (index: number) => void,
): void {
  const queryClient = useQueryClient();
  const elements = (): HTMLTableRowElement[] => [
    ...(body.current?.querySelectorAll<HTMLTableRowElement>('tr[data-row]') ?? []),
  ];
  const activeAt = (): number =>
    elements().findIndex((element) => element.contains(document.activeElement));
  const step = (by: 1 | -1): void => {
    const all = elements();
    const at = activeAt();
    const next = at === -1 ? (by === 1 ? 0 : all.length - 1) : at + by;
    const target = all[next]?.querySelector<HTMLElement>('a, button');
    target?.focus();
    target?.scrollIntoView({ block: 'nearest' });
  };
  useShortcut('j', 'Next row', () => step(1));
  useShortcut('k', 'Row before', () => step(-1));
  useShortcut('x', 'Select the row', () => {
    select(Number(elements()[activeAt()]?.dataset['index'] ?? -1));
  });
  useShortcut('r', 'Refresh', () => void queryClient.invalidateQueries());
}
