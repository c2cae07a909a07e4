/**
 * The revokes that somebody has made in this tab and wants to see through to their end. They stay
 * while the console is walked through, and a reload keeps them.
 */
import { createSignal } from '../../lib/signal.ts';
import type { FollowedRevoke } from './revoke-progress.ts';

const STORED = 'leasehold.revokes';
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

/** Reads what this tab followed before it was loaded anew. */
export function readFollowed(): void {
  const text = window.sessionStorage.getItem(STORED);
  if (text === null) return;
  try {
    followed.set(JSON.parse(text) as FollowedRevoke[]);
  } catch {
    window.sessionStorage.removeItem(STORED);
  }
}

function store(revokes: readonly FollowedRevoke[]): void {
  const kept = revokes.slice(0, KEPT_MAX);
  followed.set(kept);
  window.sessionStorage.setItem(STORED, JSON.stringify(kept));
}
