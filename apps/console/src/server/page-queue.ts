/**
 * Bounds how many pages are made at once, and lets addresses take turns: a page takes a hundred times as long to make as
 * to ask for. A request whose caller has gone is not begun.
 */
import type { ServerResponse } from 'node:http';
import { FairQueue } from '@leasehold/service-kit/fair-queue';

/** Making more at once makes none of them sooner: there is one thread. */
const AT_ONCE_MAX = 8;
/** Requests of one address that wait. A browser asks for one page at a time, and for a few ahead. */
const WAITING_PER_ADDRESS_MAX = 40;
const WAITING_MAX = 400;
/** A page that is not finished by then gives its place to the next. */
const MAKING_MS_MAX = 30_000;

interface Waiting {
  readonly make: () => Promise<void>;
}

export class PageQueue {
  readonly #waiting = new FairQueue<Waiting>();
  #makingCount = 0;

  /**
   * Makes a page when its turn comes.
   * @param make never rejects.
   * @returns false if too many wait already: nothing is made.
   */
  add(address: string, response: ServerResponse, make: () => Promise<void>): boolean {
    const { size } = this.#waiting;
    if (size >= WAITING_MAX || this.#waiting.sizeOf(address) >= WAITING_PER_ADDRESS_MAX) {
      return false;
    }
    const waiting = { make };
    this.#waiting.push(address, waiting);
    response.once('close', () => this.#waiting.remove(address, waiting));
    this.#next();
    return true;
  }

  #next(): void {
    while (this.#makingCount < AT_ONCE_MAX) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#make(next);
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
}
