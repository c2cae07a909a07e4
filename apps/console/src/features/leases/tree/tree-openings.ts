/** The namespaces that a person opened or closed, for as long as their browser tab lives. */
import { createSignal } from '~/lib/signal.ts';

const STORED = 'leasehold.namespaces';
/** More than anybody opens by hand; what was toggled first is forgotten first. */
const TOGGLED_MAX = 2_000;

const toggled = createSignal<ReadonlyMap<string, boolean>>(new Map());
let isRead = false;

export const openings = {
  /** Like `subscribe` of a signal. */
  subscribe: (listener: () => void) => toggled.subscribe(listener),
  get: (): ReadonlyMap<string, boolean> => {
    if (!isRead && typeof window !== 'undefined') {
      isRead = true;
      toggled.set(new Map(stored()));
    }
    return toggled.get();
  },
  open(namespace: string, isOpen: boolean): void {
    const next = new Map(openings.get());
    next.delete(namespace);
    next.set(namespace, isOpen);
    const kept = [...next].slice(-TOGGLED_MAX);
    toggled.set(new Map(kept));
    try {
      window.sessionStorage.setItem(STORED, JSON.stringify(kept));
    } catch {
      // Storage that is full or forbidden: the tree still opens, for this page.
    }
  },
};

function stored(): [string, boolean][] {
  try {
    const value: unknown = JSON.parse(window.sessionStorage.getItem(STORED) ?? '[]');
    return Array.isArray(value) ? value.filter(isOpening) : [];
  } catch {
    return [];
  }
}

function isOpening(one: unknown): one is [string, boolean] {
  return Array.isArray(one) && typeof one[0] === 'string' && typeof one[1] === 'boolean';
}
