import type { Icon } from '@tabler/icons-react';
import { useEffect, useRef } from 'react';
import { createSignal } from '~/lib/signal.ts';

/** How often the palette was requested: the first request loads it. */
export const paletteRequests = createSignal(0);

export function openPalette(): void {
  beginTypeAhead();
  paletteRequests.set(paletteRequests.get() + 1);
}

// What is typed after the palette was requested and before its field has the focus: nothing of it is lost.

interface TypedAhead {
  readonly text: string;
  /** Enter was pressed after it. */
  readonly isSent: boolean;
}

/** If the palette cannot be loaded, the keys belong to the page again. */
const AT_MOST_MS = 10_000;
const NOTHING: TypedAhead = { text: '', isSent: false };

let typed = NOTHING;
let end = (): void => undefined;

function beginTypeAhead(): void {
  end();
  const begun = new AbortController();
  end = () => begun.abort();
  typed = NOTHING;
  const limit = AbortSignal.any([begun.signal, AbortSignal.timeout(AT_MOST_MS)]);
  // Before any shortcut of the page sees the key.
  window.addEventListener('keydown', keep, { capture: true, signal: limit });
}

/** What was typed until now. From here on, keys go where the focus is. */
export function endTypeAhead(): TypedAhead {
  end();
  const before = typed;
  typed = NOTHING;
  return before;
}

function keep(event: KeyboardEvent): void {
  const isInDialog = event.target instanceof Element && event.target.closest('[role="dialog"]');
  const next = event.isComposing || Boolean(isInDialog) ? undefined : typedWith(typed, event);
  if (next === undefined) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  typed = next;
}

/** With one more key; undefined for a key that is not for a text. */
export function typedWith(
  { text, isSent }: TypedAhead,
  key: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey'>,
): TypedAhead | undefined {
  if (key.ctrlKey || key.metaKey || key.altKey) return undefined;
  if (key.key === 'Enter') return { text, isSent: true };
  if (key.key === 'Backspace') return { text: text.slice(0, -1), isSent };
  return key.key.length === 1 ? { text: text + key.key, isSent: false } : undefined;
}

/** Something that can be done about what the open page shows. It opens the same dialog as the page's button. */
export interface PageAct {
  /** With the name of the thing: `Revoke q4-roadmap`. */
  readonly label: string;
  readonly icon: Icon;
  /** Why it cannot be done; undefined: it can. */
  readonly whyNot: string | undefined;
  readonly run: () => void;
}

/** What the open page offers, for the palette. */
export const pageActs = createSignal<readonly PageAct[]>([]);

/** Offers these in the palette while the page is open. */
export function usePageActs(acts: readonly PageAct[]): void {
  const latest = useRef(acts);
  useEffect(() => {
    latest.current = acts;
  });
  // A page is rendered with every reading: what the palette shows changes only with the words.
  const words = JSON.stringify(acts.map(({ label, whyNot }) => [label, whyNot ?? null]));
  useEffect(() => {
    const offered = latest.current.map((act, at) => ({
      ...act,
      run: () => latest.current[at]?.run(),
    }));
    pageActs.set([...pageActs.get(), ...offered]);
    return () => pageActs.set(pageActs.get().filter((act) => !offered.includes(act as never)));
  }, [words]);
}
