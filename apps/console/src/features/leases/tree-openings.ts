/** Which namespaces somebody opened or closed, for as long as their tab of the browser lives. */
import { createSignal } from '~/lib/signal.ts';

const STORED = 'leasehold.namespaces';
/** More than anybody opens by hand; what was toggled first is forgotten first. */
const TOGGLED_MAX = 2_000;

const toggled = createSignal<ReadonlySet<string>>(new Set());
let isRead = false;

export const openings = {
  /** As a signal's. */
  subscribe: (listener: () => void) => toggled.subscribe(listener),
  get: (): ReadonlySet<string> => {
    if (!isRead && typeof window !== 'undefined') {
      isRead = true;
      toggled.set(new Set(stored()));
    }
    return toggled.get();
  },
  toggle(namespace: string): void {
    const next = new Set(openings.get());
    if (!next.delete(namespace)) next.add(namespace);
    const kept = [...next].slice(-TOGGLED_MAX);
    toggled.set(new Set(kept));
    try {
      window.sessionStorage.setItem(STORED, JSON.stringify(kept));
    } catch {
      // Storage that is full or forbidden: the tree still opens, for this page.
    }
  },
};

function stored(): string[] {
  try {
    const value: unknown = JSON.parse(window.sessionStorage.getItem(STORED) ?? '[]');
    return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}
