/**
 * Signals that live as long as the process does. `AbortSignal.any` would do, but in Node 20 such a signal keeps
 * something of each request that has followed it.
 */

/** What follows a signal, as long as it does: without its function it keeps nothing in memory. */
interface Follower {
  fn: ((reason: unknown) => void) | undefined;
}

/** Those that follow a signal through its one listener: a signal compares a new listener with all that it has. */
const followersOf = new WeakMap<AbortSignal, Set<Follower>>();

/** Calls `fn` with the reason when the signal aborts, or at once. @returns ends that. */
export function onAbort(signal: AbortSignal, fn: (reason: unknown) => void): () => void {
  if (signal.aborted) {
    fn(signal.reason);
    return () => undefined;
  }
  const all = followersOf.get(signal) ?? new Set();
  followersOf.set(signal, all);
  if (all.size === 0) signal.addEventListener('abort', abortFollowers);
  const follower: Follower = { fn };
  all.add(follower);
  return () => {
    follower.fn = undefined;
    if (all.delete(follower) && all.size === 0) {
      signal.removeEventListener('abort', abortFollowers);
    }
  };
}

function abortFollowers(this: AbortSignal): void {
  for (const { fn } of followersOf.get(this) ?? []) fn?.(this.reason);
}
