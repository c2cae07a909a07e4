/**
 * The revokes that somebody has made in this tab and wants to see through to their end. They stay
 * while the console is walked through, and a reload keeps them.
 */
import { createSignal } from '~/lib/signal.ts';
import type { FollowedRevoke } from './revoke-progress.ts';

/** With whose they are: another person who signs in in this tab has not made them. */
let stored = 'leasehold.revokes';
const KEPT_MAX = 3;

export const followed = createSignal<readonly FollowedRevoke[]>([]);

/** Begins to follow a revoke; of many, the newest are kept. */
export function follow(revoke: FollowedRevoke): void {
  store([revoke, ...followed.get().filter((other) => other.leaseId !== revoke.leaseId)]);
}

/** Somebody has seen enough of it. */
export function unfollow(leaseId: string): void {
  store(followed.get().filter((other) => other.leaseId !== leaseId));
}

/** Reads what this person followed in this tab before it was loaded again. */
export function readFollowed(actor: string): void {
  stored = `leasehold.revokes ${actor}`;
  const text = window.sessionStorage.getItem(stored);
  if (text === null) {
    followed.set([]);
    return;
  }
  try {
    followed.set(JSON.parse(text) as FollowedRevoke[]);
  } catch {
    window.sessionStorage.removeItem(stored);
  }
}

function store(revokes: readonly FollowedRevoke[]): void {
  const kept = revokes.slice(0, KEPT_MAX);
  followed.set(kept);
  window.sessionStorage.setItem(stored, JSON.stringify(kept));
}
