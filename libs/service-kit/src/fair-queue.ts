/**
 * A queue that serves principals in turn, whatever each of them has put into it: one with a thousand
 * waiting items delays another one by a single turn.
 */
export class FairQueue<Item> {
  readonly #byPrincipal = new Map<string, Item[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many items of one principal wait. */
  sizeOf(principal: string): number {
    return this.#byPrincipal.get(principal)?.length ?? 0;
  }

  push(principal: string, item: Item): void {
    const waiting = this.#byPrincipal.get(principal);
    if (waiting === undefined) this.#byPrincipal.set(principal, [item]);
    else waiting.push(item);
    this.#size += 1;
  }

  /**
   * The next item, of the first principal in turn whose first item may be served; undefined if no such one
   * waits.
   */
  shift(mayServe?: (principal: string, item: Item) => boolean): Item | undefined {
    for (const [principal, waiting] of this.#byPrincipal) {
      const [item] = waiting;
      if (item === undefined || mayServe?.(principal, item) === false) continue;
      waiting.shift();
      // To the end of the order, or out of it.
      this.#byPrincipal.delete(principal);
      if (waiting.length > 0) this.#byPrincipal.set(principal, waiting);
      this.#size -= 1;
      return item;
    }
    return undefined;
  }

  /** Removes the items that a principal queued first, as long as each of them `isOver`. */
  drop(isOver: (item: Item) => boolean): Item[] {
    const dropped: Item[] = [];
    for (const [principal, waiting] of this.#byPrincipal) {
      const keptFrom = waiting.findIndex((item) => !isOver(item));
      dropped.push(...waiting.splice(0, keptFrom < 0 ? waiting.length : keptFrom));
      if (waiting.length === 0) this.#byPrincipal.delete(principal);
    }
    this.#size -= dropped.length;
    return dropped;
  }

  /** Removes one item, wherever it is. @returns whether it was there. */
  remove(principal: string, item: Item): boolean {
    const waiting = this.#byPrincipal.get(principal);
    const place = waiting?.indexOf(item) ?? -1;
    if (waiting === undefined || place < 0) return false;
    waiting.splice(place, 1);
    if (waiting.length === 0) this.#byPrincipal.delete(principal);
    this.#size -= 1;
    return true;
  }
}
