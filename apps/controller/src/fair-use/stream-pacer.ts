import { FairQueue } from '@leasehold/service-kit/fair-queue';

/** After this many events in a row a stream waits for its turn. */
const EVENTS_PER_TURN = 16;
/** This many streams continue in one turn of the event loop: some 50 events, a few milliseconds. */
const STREAMS_PER_TURN = 3;
/** When these take longer, they rest for as long as they took: others have half of the time. */
const TURN_MS_MAX = 4;

/**
 * Lets streams that have much to send take turns, so that the rest of the controller gets as much of
 * each turn of the event loop as it needs, however many streams there are.
 */
export interface StreamPacer {
  /** A place for one stream: call it before each event. Undefined: continue at once. */
  open(principal: string): () => Promise<void> | undefined;
}

/** @param nowMs a monotonic reading, in milliseconds. */
export function createStreamPacer(nowMs: () => number): StreamPacer {
  const waiting = new FairQueue<() => void>();
  let isTurnDue = false;
  const turn = (): void => {
    const beganAtMs = nowMs();
    for (let count = 0; count < STREAMS_PER_TURN; count += 1) waiting.shift()?.();
    // They go on when this function has returned, and are done with their turn before the next one of the event loop.
    setImmediate(() => {
      const tookMs = nowMs() - beganAtMs;
      isTurnDue = false;
      schedule(tookMs > TURN_MS_MAX ? tookMs : 0);
    });
  };
  const schedule = (restMs: number): void => {
    if (isTurnDue || waiting.size === 0) return;
    isTurnDue = true;
    if (restMs > 0) setTimeout(turn, restMs).unref();
    else setImmediate(turn);
  };
  return {
    open(principal) {
      let eventCount = 0;
      return () => {
        eventCount += 1;
        if (eventCount % EVENTS_PER_TURN !== 0) return undefined;
        return new Promise((resolve) => {
          waiting.push(principal, resolve);
          schedule(0);
        });
      };
    },
  };
}
