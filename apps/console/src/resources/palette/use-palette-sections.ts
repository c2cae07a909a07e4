import { useRouter } from 'next/navigation';
import { useState } from 'react';
import { useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { pageActs } from '~/ui/shell/palette-store.ts';
import { useConsoleEntries } from './console-acts.ts';
import { type Entry, type Section, sectionsOf } from './entries.ts';
import { KIND_LOOKS, lookOf, placesOf } from './found-entries.ts';
import { addRecent, readRecent, type RecentItem } from './recent.ts';
import type { FoundItem } from './use-find.ts';

/** All that the palette lists for a text. */
export function usePaletteSections(text: string, found: readonly FoundItem[]): readonly Section[] {
  const router = useRouter();
  const { actor } = useSession();
  const { pages, acts } = useConsoleEntries();
  const onPage = useSignal(pageActs);
  const [recent] = useState(() => readRecent(actor));
  const open = (item: RecentItem): void => {
    addRecent(actor, item);
    router.push(item.href);
  };
  const recentEntry = (item: RecentItem): Entry => ({
    ...entryOf(item),
    id: `recent ${item.href}`,
    run: () => open(item),
  });
  const foundEntries = (item: FoundItem): Entry[] =>
    placesOf(item).map(({ href, word, hint }) => {
      const opened = { kind: item.kind, text: item.text, href, word };
      return {
        ...entryOf(opened),
        id: `${item.kind} ${item.datacenter} ${item.namespace}/${item.id} ${word}`,
        hint,
        look: lookOf(item),
        run: () => open(opened),
      };
    });
  return sectionsOf(text, {
    found: found.flatMap(foundEntries),
    acts: onPage.map((act) => ({ ...act, id: `page ${act.label}` })),
    recent: recent.map(recentEntry),
    pages,
    console: acts,
  });
}

function entryOf({ kind, text, word }: RecentItem): Pick<Entry, 'label' | 'icon' | 'kind'> {
  return { label: text, icon: KIND_LOOKS[kind].icon, kind: word ?? KIND_LOOKS[kind].word };
}
