import { useEffect, type RefObject } from 'react';

const FOCUSABLE = 'a[href], button, input, [tabindex]';
const STEPS: Readonly<Record<string, readonly [rows: number, stops: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/**
 * One tab stop for each row: its first link, until another part of the row has had the focus. Arrow
 * keys go from part to part, and from row to row. Set on the elements themselves: what cells render
 * need not know the row that it is in.
 */
export function useRowStops(body: RefObject<HTMLTableSectionElement | null>): void {
  useEffect(() => {
    const rows = body.current;
    if (rows === null) return undefined;
    const keep = (): void => {
      for (const row of rowsOf(rows)) setStop(row, stopOf(row));
    };
    const focused = ({ target }: FocusEvent): void => {
      const row = rowOf(target);
      if (row !== null && target instanceof HTMLElement && target.matches(FOCUSABLE)) {
        setStop(row, target);
      }
    };
    const pressed = (event: KeyboardEvent): void => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const next = nextOf(rows, event);
      if (next === undefined) return;
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    };
    keep();
    const observer = new MutationObserver(keep);
    observer.observe(rows, { childList: true, subtree: true });
    rows.addEventListener('focusin', focused);
    rows.addEventListener('keydown', pressed);
    return () => {
      observer.disconnect();
      rows.removeEventListener('focusin', focused);
      rows.removeEventListener('keydown', pressed);
    };
  }, [body]);
}

function rowsOf(body: HTMLElement): HTMLElement[] {
  return [...body.querySelectorAll<HTMLElement>('tr[data-row]')];
}

function rowOf(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>('tr[data-row]') : null;
}

/** What can have the focus in a row, as far as it is shown at this width. */
function stopsOf(row: HTMLElement): HTMLElement[] {
  return [...row.querySelectorAll<HTMLElement>(FOCUSABLE)].filter(
    (element) => element.getClientRects().length > 0,
  );
}

function stopOf(row: HTMLElement): HTMLElement | undefined {
  const stops = stopsOf(row);
  return (
    stops.find((element) => element.dataset['stop'] !== undefined) ??
    stops.find((element) => element.matches('a[href]')) ??
    stops[0]
  );
}

function setStop(row: HTMLElement, stop: HTMLElement | undefined): void {
  for (const element of row.querySelectorAll<HTMLElement>(FOCUSABLE)) {
    element.tabIndex = element === stop ? 0 : -1;
    if (element === stop) element.dataset['stop'] = '';
    else delete element.dataset['stop'];
  }
}

/** Where an arrow key leads to; undefined if it leads nowhere. */
function nextOf(body: HTMLElement, { key, target }: KeyboardEvent): HTMLElement | undefined {
  const [byRows, byStops] = STEPS[key] ?? [0, 0];
  const row = rowOf(target);
  if (row === null || (byRows === 0 && byStops === 0)) return undefined;
  const stops = stopsOf(row);
  const at = stops.indexOf(target as HTMLElement);
  if (byStops !== 0) return stops[at + byStops];
  const rows = rowsOf(body);
  const nextRow = rows[rows.indexOf(row) + byRows];
  if (nextRow === undefined) return undefined;
  const others = stopsOf(nextRow);
  return others[Math.min(at, others.length - 1)];
}
