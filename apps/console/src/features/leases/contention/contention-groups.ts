import type { ContentionView } from '@leasehold/keys-core/leases';

/** A resource with the callers that wait for it. */
export interface Line {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  /** Null when nobody holds it at this moment. */
  readonly holder: string | null;
  readonly heldSince: string | null;
  /** In the order of their places. */
  readonly waiters: readonly ContentionView[];
  /** How many waiters come before the first that this page shows. */
  readonly before: number;
}

/** The lines of a page, the one with the longest wait first. */
export function linesOf(items: readonly ContentionView[]): Line[] {
  const byId = new Map<string, ContentionView[]>();
  for (const item of items) {
    const id = `${item.namespace}\n${item.name}`;
    const others = byId.get(id);
    if (others === undefined) byId.set(id, [item]);
    else others.push(item);
  }
  return [...byId.entries()].flatMap(([id, waiters]) => {
    const [first] = waiters;
    if (first === undefined) return [];
    const { namespace, name, holder, heldSince } = first;
    return [{ id, namespace, name, holder, heldSince, waiters, before: first.place - 1 }];
  });
}
