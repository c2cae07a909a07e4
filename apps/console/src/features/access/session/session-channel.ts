/**
 * Tabs and windows of one browser share a session: one that has been signed in tells the others, and another
 * whose session had ended goes on.
 */
const CHANNEL = 'leasehold-session';

/** Says that somebody has signed in here. */
export function announceSignIn(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage('signed in');
  channel.close();
}

/** Learns when somebody has signed in elsewhere in this browser. @returns what ends it. */
export function onSignIn(listener: () => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = listener;
  return () => {
    channel.close();
  };
}
