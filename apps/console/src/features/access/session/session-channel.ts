/**
 * Tabs and windows of one browser share a session: after a sign-in, one tells the others, and those
 * whose session had ended go on.
 */
const CHANNEL = 'leasehold-session';

/** Tells the other tabs that a person has signed in here. */
export function announceSignIn(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage('signed in');
  channel.close();
}

/** Calls `listener` when a person has signed in elsewhere in this browser. @returns what ends that. */
export function onSignIn(listener: () => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = listener;
  return () => channel.close();
}
