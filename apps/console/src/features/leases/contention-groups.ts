import type { Face } from '@leasehold/keys-core';
import type { ContentionView } from '@leasehold/keys-core/leases';

/** A resource with the callers that wait for it. */
export interface Line {
  readonly id: string;
  readonly face: Face;
  readonly namespace: string;
  readonly name: string;
  readonly datacenter: string;
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
    const id = [item.datacenter, item.face, item.namespace, item.name].join('\n');
    const others = byId.get(id);
    if (others === undefined) byId.set(id, [item]);
    else others.push(item);
  }
  return [...byId.entries()].flatMap(([id, waiters]) => {
    const [first] = waiters;
    if (first === undefined) return [];
    const { face, namespace, name, datacenter, holder, heldSince } = first;
    const before = first.place - 1;
    return [{ id, face, namespace, name, datacenter, holder, heldSince, waiters, before }];
  });
}
