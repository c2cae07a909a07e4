/**
 * Carries bodies and WebSockets, piece by piece. The system takes megabytes at once of each of many large bodies, and
 * until all have been given theirs, nobody else would be answered. So one turn of the event loop passes a certain
 * amount, and the rest waits for the next turn, each in its order.
 */
import type { Readable } from 'node:stream';

/** What one turn passes; then each source that brings one more piece waits. */
export const TURN_BYTES = 256 * 1_024;
/** How many of those that wait go on in one turn. Each passes some pieces of up to 64 KB. */
const TURN_SOURCES_MAX = 4;

/** Whether a piece may be passed. Where not, the other side is destroyed already. */
export type OnPiece = (piece: Buffer) => boolean;

/**
 * Passes on what is read, as it may be, and reads no more than the other side takes. @param length in bytes, where it is
 * known.
 */
export function pump(
  source: Readable,
  to: NodeJS.WritableStream,
  onPiece: OnPiece,
  length = Infinity,
): void {
  const goOn = (): void => void source.resume();
  let left = length;
  let isEnded = false;
  source.on('data', (piece: Buffer) => {
    if (!onPiece(piece)) return;
    left -= piece.length;
    if (left === 0) {
      // An end that follows later may cost another call of the system.
      turn.count(piece.length);
      isEnded = true;
      to.end(piece);
      return;
    }
    const isTaken = to.write(piece);
    const isOver = turn.count(piece.length);
    if (isTaken && !isOver) return;
    source.pause();
    if (isTaken) turn.go(goOn);
    else to.once('drain', () => turn.go(goOn));
  });
  source.on('end', () => {
    // A body of no bytes has no last piece.
    if (!isEnded) to.end();
  });
  source.resume();
}

/** The present turn of the event loop. */
class Turn {
  #left = TURN_BYTES;
  #waiting: (() => void)[] = [];
  #isOn = false;

  /** @returns whether no more is to be read in it. */
  count(bytes: number): boolean {
    this.#left -= bytes;
    this.#begin();
    return this.#left <= 0;
  }

  /** Now, or in a later turn, in the order in which they came. */
  go(work: () => void): void {
    if (this.#left > 0) {
      work();
      return;
    }
    this.#waiting.push(work);
    this.#begin();
  }

  #begin(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    setImmediate(() => {
      this.#isOn = false;
      this.#left = TURN_BYTES;
      for (const work of this.#waiting.splice(0, TURN_SOURCES_MAX)) work();
      if (this.#waiting.length > 0) this.#begin();
    });
  }
}
const turn = new Turn();
