/**
 * Bounds how many pages are made at once, and lets addresses take turns: a page takes a hundred times as long to make as
 * to ask for. A request whose caller has gone is not begun.
 */
import type { ServerResponse } from 'node:http';

/** Making more at once makes none of them sooner: there is one thread. */
const AT_ONCE_MAX = 8;
/** Requests of one address that wait. A browser asks for one page at a time, and for a few ahead. */
const WAITING_PER_ADDRESS_MAX = 40;
const WAITING_MAX = 400;
/** A page that is not finished by then gives its place to the next. */
const MAKING_MS_MAX = 30_000;

interface Waiting {
  readonly response: ServerResponse;
  readonly make: () => Promise<void>;
}

export class PageQueue {
  readonly #waiting = new Map<string, Waiting[]>();
  #waitingCount = 0;
  #makingCount = 0;

  /**
   * Makes a page when its turn comes.
   * @param make never rejects.
   * @returns false if too many wait already: nothing is made.
   */
  add(address: string, response: ServerResponse, make: () => Promise<void>): boolean {
    const own = this.#waiting.get(address) ?? [];
    if (own.length >= WAITING_PER_ADDRESS_MAX || this.#waitingCount >= WAITING_MAX) return false;
    const waiting = { response, make };
    own.push(waiting);
    this.#waiting.set(address, own);
    this.#waitingCount += 1;
    response.once('close', () => this.#leave(address, waiting));
    this.#next();
    return true;
  }

  #next(): void {
    while (this.#makingCount < AT_ONCE_MAX) {
      const [entry] = this.#waiting;
      if (entry === undefined) return;
      const [address, own] = entry;
      const [first] = own;
      // The address goes to the end of the line.
      this.#waiting.delete(address);
      if (first === undefined) continue;
      this.#waiting.set(address, own);
      this.#leave(address, first);
      this.#make(first);
    }
  }

  #make({ make }: Waiting): void {
    this.#makingCount += 1;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      this.#makingCount -= 1;
      this.#next();
    };
    const timer = setTimeout(end, MAKING_MS_MAX);
    timer.unref();
    void make().finally(end);
  }

  #leave(address: string, waiting: Waiting): void {
    const own = this.#waiting.get(address);
    const place = own?.indexOf(waiting) ?? -1;
    if (own === undefined || place < 0) return;
    own.splice(place, 1);
    this.#waitingCount -= 1;
    if (own.length === 0) this.#waiting.delete(address);
  }
}
