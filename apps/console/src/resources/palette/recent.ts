/** What was opened from the palette last, in this browser. */
import type { FoundKind } from '@leasehold/keys-core';

export interface RecentItem {
  readonly kind: FoundKind;
  readonly text: string;
  readonly href: string;
  /** What kind of page that is. Items of an earlier version have none. */
  readonly word?: string;
}

const STORED = 'leasehold.recent';
const RECENT_MAX = 8;

interface Stored {
  /** Another person at the same browser does not see them. */
  readonly actor: string;
  readonly items: readonly RecentItem[];
}

export function readRecent(actor: string): readonly RecentItem[] {
  try {
    const stored = JSON.parse(window.localStorage.getItem(STORED) ?? 'null') as Stored | null;
    return stored?.actor === actor ? [...stored.items] : [];
  } catch {
    return [];
  }
}

export function addRecent(actor: string, item: RecentItem): void {
  const others = readRecent(actor).filter(({ href }) => href !== item.href);
  const items = [item, ...others].slice(0, RECENT_MAX);
  try {
    window.localStorage.setItem(STORED, JSON.stringify({ actor, items } satisfies Stored));
  } catch {
    // Without storage nothing is remembered.
  }
}
