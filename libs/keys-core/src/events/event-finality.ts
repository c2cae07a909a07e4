/**
 * Which events are final: committed, with no event still to come before them.
 *
 * Ids are given in order, but transactions end in any order, so that event 7 may be seen while 6 is
 * still to come. A transaction that took an event id had taken its transaction id before. So a reader
 * notes the greatest event id that it sees together with a transaction id of its own, taken after that
 * reading: a transaction with a smaller event id has a smaller transaction id. Once no transaction
 * before the noted one is under way, no event up to the noted one is still to come.
 */

/** What one query of the database showed. */
export interface MarkReading {
  /** The greatest event id that was committed; 0 for none. */
  readonly lastId: bigint;
  /** The reading transaction's own id, if it took one. */
  readonly ownXid: bigint | null;
  /** All transactions before this one have ended. */
  readonly xmin: bigint;
  /** No transaction from this one on had ended. */
  readonly xmax: bigint;
}

/** How many notes are kept while one old transaction holds all events back. */
export const NOTES_MAX = 64;

/** Follows how far events are final. One for each database epoch. */
export class FinalMark {
  #finalId = 0n;
  #notes: { readonly lastId: bigint; readonly xid: bigint }[] = [];

  /** Events up to this one are final. Never decreases. */
  get finalId(): bigint {
    return this.#finalId;
  }

  /** The greatest id that needs no further note. */
  get notedId(): bigint {
    return this.#notes.at(-1)?.lastId ?? this.#finalId;
  }

  /** Takes a reading; readings come in the order in which they were made. */
  observe(reading: MarkReading): void {
    // A noted transaction ended with its reading. One that has not ended later is from before a crash,
    // after which transaction ids that were never written down are given again.
    if (this.#notes.some(({ xid }) => xid >= reading.xmax)) this.#notes = [];
    if (reading.ownXid !== null && reading.lastId > this.notedId) {
      // Every other note is dispensable: the next one makes its events final too.
      if (this.#notes.length >= NOTES_MAX) {
        this.#notes = this.#notes.filter((_, at) => at % 2 === 0);
      }
      this.#notes.push({ lastId: reading.lastId, xid: reading.ownXid });
    }
    while (this.#notes[0] !== undefined && this.#notes[0].xid <= reading.xmin) {
      this.#finalId = this.#notes[0].lastId;
      this.#notes.shift();
    }
  }
}
