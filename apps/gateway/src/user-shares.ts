/** Who has shown a good token may have many connections, but must not keep out the others: each user has a share. */
import type { EventEmitter } from 'node:events';
import { Refusal } from './refusal.ts';

/** Of all connections, a user of one key may have this part. */
const SHARE = 8;

/** A connection, or the answer to a request that a proxy passes on over a connection of its own. */
type Taken = EventEmitter & { readonly destroyed: boolean };

export class UserShares {
  readonly #ofUserMax: number;
  readonly #counts = new Map<string, number>();
  readonly #userOf = new WeakMap<Taken, string>();

  constructor(connectionsMax: number) {
    this.#ofUserMax = Math.max(1, Math.floor(connectionsMax / SHARE));
  }

  /**
   * Counts a connection for the user whose token was shown on it last, until it closes.
   * @throws {Refusal} `gateway.busy` when the user has too many already.
   */
  take(taken: Taken, user: string): void {
    const before = this.#userOf.get(taken);
    // Nothing would tell of the end of one that is over.
    if (before === user || taken.destroyed) return;
    const count = this.#counts.get(user) ?? 0;
    if (count >= this.#ofUserMax) throw new Refusal('gateway.busy');
    this.#counts.set(user, count + 1);
    this.#userOf.set(taken, user);
    if (before === undefined) taken.once('close', () => this.#forget(taken));
    else this.#giveBack(before);
  }

  #forget(taken: Taken): void {
    const user = this.#userOf.get(taken);
    if (user !== undefined) this.#giveBack(user);
  }

  #giveBack(user: string): void {
    const left = (this.#counts.get(user) ?? 0) - 1;
    if (left > 0) this.#counts.set(user, left);
    else this.#counts.delete(user);
  }
}
