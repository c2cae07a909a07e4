/** What happens to a request for a page before Next renders it: it is checked, told its path, and waits for its turn. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import { z } from 'zod';

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

/**
 * Bounds how many pages are made at once, and lets addresses take turns: a page takes a hundred times as long to make as
 * to ask for. A request whose caller has gone is not begun.
 */
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

/** The header that gives a page its path: a visitor who has to sign in first comes back to it. */
const PATH_HEADER = 'x-leasehold-path';

/** The path and query of a page, without Next's own mark of a page that is fetched in the background. */
export function pathOfPage(request: IncomingMessage): string {
  const [path = '/', query = ''] = (request.url ?? '/').split(/\?(.*)/su, 2);
  const params = new URLSearchParams(query);
  params.delete('_rsc');
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Tells the page its own path and query, in place of what the browser claims. */
export function notePath(request: IncomingMessage): void {
  request.headers[PATH_HEADER] = pathOfPage(request);
}

/** The header in which the browser sends what it shows: a segment of the path, what is below it, and marks. */
const STATE_HEADER = 'next-router-state-tree';
/** As Next bounds it. */
const STATE_LENGTH_MAX = 40_000;

/** A part of the path: a fixed one, or a parameter with its value, its kind and its fixed siblings. */
const SEGMENT = z.union([
  z.string(),
  z.tuple([z.string(), z.string(), z.enum(['c', 'oc', 'd']), z.array(z.string()).nullable()]),
]);
const ROUTER_STATE = z.tuple([
  SEGMENT,
  z.record(
    z.string(),
    z.lazy((): z.ZodType => ROUTER_STATE),
  ),
  z.tuple([z.string(), z.string()]).nullish(),
  z.enum(['refetch', 'inside-shared-layout', 'metadata-only']).nullish(),
  z.number().nullish(),
  z.string().optional(),
]);

/**
 * Whether the router state that a page sends can be read. Next would answer an unreadable one with a
 * 500, and log our error for a request that was wrong: so it is checked before Next renders anything.
 */
export function isRouterStateSound({ headers }: IncomingMessage): boolean {
  const state = headers[STATE_HEADER];
  if (state === undefined) return true;
  if (typeof state !== 'string' || state.length > STATE_LENGTH_MAX) return false;
  try {
    return ROUTER_STATE.safeParse(JSON.parse(decodeURIComponent(state))).success;
  } catch {
    return false;
  }
}
