import type { Icon } from '@tabler/icons-react';
import { useEffect, useRef } from 'react';
import { createSignal } from '~/lib/signal.ts';

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
