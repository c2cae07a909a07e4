/**
 * Calls that follow a signal. `AbortSignal.any` would do, but in Node 20 a long-lived signal keeps something of
 * each that has followed it: a process that does so for each request must not leak memory.
 */
import { setMaxListeners } from 'node:events';

/**
 * What follows a signal, as long as it does. The tables of a set that much is added to and deleted from keep what they
 * held until a full collection: without its function that is little.
 */
interface Follower {
  fn: ((reason: unknown) => void) | undefined;
}

/** Those that follow a signal through its one listener. */
const followersOf = new WeakMap<AbortSignal, Set<Follower>>();

/**
 * Calls `fn` with the reason when the signal aborts, or at once. Any number of calls may follow a signal:
 * it has one listener for all of them, because a signal compares a new listener with all that it has.
 * @returns a function that ends it.
 */
export function onAbort(signal: AbortSignal, fn: (reason: unknown) => void): () => void {
  if (signal.aborted) {
    fn(signal.reason);
    return () => undefined;
  }
  let followers = followersOf.get(signal);
  if (followers === undefined) {
    followers = new Set();
    followersOf.set(signal, followers);
    // Others may listen to it as well.
    setMaxListeners(0, signal);
  }
  const all = followers;
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
