/**
 * Which events are final: committed, or never to come, and so is everything before them.
 *
 * Ids are given in order, but transactions end in any order, so that event 7 may be seen while 6 is
 * still to come. A transaction that has an id also had a transaction id, and had it first. So a reader notes the
 * greatest event id that it sees together with a transaction id of its own, taken after that look:
 * one that has a smaller event id has a smaller transaction id. Once no transaction before the noted
 * one is under way, all events up to the noted one are there that will ever be.
 */

/** What one look at the database showed. */
export interface MarkReading {
  /** The greatest event id that was committed; 0 for none. */
  readonly lastId: bigint;
  /** The looking transaction's own id, where it took one. */
  readonly ownXid: bigint | null;
  /** All transactions before this one have ended. */
  readonly xmin: bigint;
  /** No transaction from this one on had ended. */
  readonly xmax: bigint;
}

/** What is noted while one old transaction holds all of it back. */
export const NOTES_MAX = 64;

/** Follows how far events are final. One for each life of a database. */
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

  /** Takes what a look showed; looks come in the order in which they were made. */
  observe(reading: MarkReading): void {
    // A noted transaction ended with its look. One that had not, later on, is from before a crash,
    // which gives transaction ids again that were never written down.
    if (this.#notes.some(({ xid }) => xid >= reading.xmax)) this.#notes = [];
    if (reading.ownXid !== null && reading.lastId > this.notedId) {
      // Every other note is dispensable: what it would make final, the next one does.
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
