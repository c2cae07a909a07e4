/**
 * Spreads the many things of one message over turns of the event loop, so that what others send is read in
 * between.
 */

/** How many items or calls one turn begins: each takes up to a tenth of a millisecond, and more if it is wrong. */
const BEGUN_IN_A_TURN = 100;

/**
 * Call it before each of many things. Undefined: go on at once, and do not await it, because each `await` puts what
 * follows behind all others of the turn.
 */
export type Turns = () => Promise<void> | undefined;

export function createTurns(): Turns {
  let count = 0;
  let mine: Promise<void> | undefined;
  return () => {
    if (count > 0 && count % BEGUN_IN_A_TURN === 0) {
      mine = (mine ?? Promise.resolve()).then(nextTurn);
    }
    count += 1;
    return mine;
  };
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
