/**
 * Whether the page is live. One stream of events for the whole page reports when something changed;
 * while it is open, lists are read again after events of theirs, and regularly for what has no event
 * (renewals, backends, heartbeats). Without it they are read on a timer alone. A dialog, a hidden tab
 * or the person's own choice pauses both.
 */
import { createSignal } from '../signal.ts';

type StreamState = 'connecting' | 'open' | 'lost';

export const stream = createSignal<StreamState>('connecting');

/** How many dialogs and the like pause updates at this moment. */
const holds = createSignal(0);
/** The person's own setting. */
const isPausedByHand = createSignal(false);

/** How many events have come since updates were paused. */
export const missed = createSignal(0);

export const pause = {
  holds,
  isPausedByHand,
  /** Pauses updates. @returns what ends that pause. */
  hold(): () => void {
    holds.set(holds.get() + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      holds.set(holds.get() - 1);
    };
  },
  isPaused: (): boolean => holds.get() > 0 || isPausedByHand.get(),
};
