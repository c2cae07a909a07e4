/**
 * What connections may ask over which nobody has shown a good token, and how many each user may have: none of them may
 * keep the gateway from the others. And what a request keeps in memory while it is held for its backend.
 */
import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { networkOf, withoutMapping } from '@leasehold/service-kit/source-address';
import { Refusal } from './refusal.ts';
import { hasBody } from './target.ts';

/** What strangers are answered over one connection in {@link RATE_MS}: a page without a token asks for all its parts. */
const STRANGE_ANSWERS_MAX = 10;
const RATE_MS = 1_000;
/** What all of one address are answered in that time, before each connection has one answer only. */
const OF_ADDRESS_MAX = 64;
/** How long a connection over which more is asked stays open, unread: a client that is cut off at once is back at once. */
const SILENCED_MS = 2_000;
/** Requests that one read of a stranger's connection may bring, and how long the connections of one with more are searched. */
const REQUESTS_PER_READ_MAX = 16;
const SEARCHED_MS = 60_000;
/** Addresses whose connections are searched. */
const SEARCHED_MAX = 10_000;
/** Ends the first line of a request. */
const LINE_END = ' HTTP/1.1\r\n';

export class StrangerBounds {
  readonly #clock: TickingClock;
  readonly #isStrange: (socket: Socket) => boolean;
  readonly #rates = new WeakMap<Socket, { sinceMs: number; count: number }>();
  readonly #silenced = new WeakSet<Duplex>();
  /** Answers since {@link StrangerBounds.#sinceMs}, by address. */
  readonly #ofAddress = new Map<string, number>();
  #sinceMs = -Infinity;
  /** Until when, by address. */
  readonly #searched = new Map<string, number>();

  constructor(clock: TickingClock, isStrange: (socket: Socket) => boolean) {
    this.#clock = clock;
    this.#isStrange = isStrange;
  }

  /** Nothing of it is read any more, and nothing that has gone wrong with it is answered. */
  isSilenced(socket: Duplex): boolean {
    return this.#silenced.has(socket);
  }

  /** Counts an answer of the gateway itself. A stranger's connection with too many is silenced, and closed later. */
  answered(socket: Socket): void {
    if (!this.#isStrange(socket)) return;
    const nowMs = this.#clock.nowMs();
    const isMany = this.#countOfAddress(addressOf(socket), nowMs) > OF_ADDRESS_MAX;
    const rate = this.#rates.get(socket) ?? { sinceMs: nowMs, count: 0 };
    this.#rates.set(socket, rate);
    if (nowMs - rate.sinceMs >= RATE_MS) Object.assign(rate, { sinceMs: nowMs, count: 0 });
    rate.count += 1;
    if (isMany || rate.count === STRANGE_ANSWERS_MAX) this.#silence(socket);
  }

  #countOfAddress(address: string, nowMs: number): number {
    if (nowMs - this.#sinceMs >= RATE_MS) {
      this.#sinceMs = nowMs;
      this.#ofAddress.clear();
    }
    const count = (this.#ofAddress.get(address) ?? 0) + 1;
    this.#ofAddress.set(address, count);
    return count;
  }

  /** Notes that a connection had too many requests under way. One read brings two thousand, and all are parsed. */
  hadTooMany(socket: Socket): void {
    if (!this.#isStrange(socket)) return;
    if (this.#searched.size >= SEARCHED_MAX) this.#searched.clear();
    this.#searched.set(addressOf(socket), this.#clock.nowMs() + SEARCHED_MS);
  }

  /** To be called with each new connection. What is searched costs more to read, so only a few are. */
  accepted(socket: Socket): void {
    if (this.#searched.size === 0) return;
    const address = addressOf(socket);
    const untilMs = this.#searched.get(address);
    if (untilMs === undefined) return;
    if (untilMs <= this.#clock.nowMs()) {
      this.#searched.delete(address);
      return;
    }
    const search = (piece: Buffer): void => {
      if (!this.#isStrange(socket)) socket.off('data', search);
      else if (hasManyRequests(piece)) {
        this.#silence(socket);
        // The parser is given this piece too, and finds no request in it.
        piece.fill(0);
      }
    };
    // After the server's own listener, which it takes the place of.
    socket.prependListener('data', search);
  }

  #silence(socket: Socket): void {
    if (this.#silenced.has(socket)) return;
    this.#silenced.add(socket);
    // Node begins to read again after each answer.
    socket.on('resume', () => socket.pause());
    socket.pause();
    const cancel = this.#clock.at(this.#clock.nowMs() + SILENCED_MS, () => socket.destroy());
    socket.once('close', cancel);
  }
}

function addressOf({ remoteAddress = '' }: Socket): string {
  return networkOf(withoutMapping(remoteAddress));
}

function hasManyRequests(piece: Buffer): boolean {
  let at = -1;
  for (let count = 0; count <= REQUESTS_PER_READ_MAX; count += 1) {
    at = piece.indexOf(LINE_END, at + 1, 'latin1');
    if (at === -1) return false;
  }
  return true;
}

/** Of all connections, a user of one key may have this part. */
const SHARE = 8;

/** A connection, or the answer to a request that a proxy passes on over a connection of its own. */
type Taken = EventEmitter & { readonly destroyed: boolean };

/** Who has shown a good token may have many connections; each user of a key has a share. */
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

// What requests keep while they are held for a backend.

/** What a request with a body keeps in memory while it is held, beyond its head: what Node and the system read ahead. */
const HELD_BODY_BYTES = 131_072;
/** What is read of a WebSocket while it is held: its client may send before it is answered, and rarely does. */
const HELD_HEAD_BYTES = 16_384;

/** What a request keeps in memory, in bytes. */
export function heldBytesOf(request: IncomingMessage): number {
  const { rawHeaders, url = '' } = request;
  const head = rawHeaders.reduce((sum, text) => sum + text.length, url.length);
  if (request.headers.upgrade !== undefined) return head + HELD_HEAD_BYTES;
  return head + (hasBody(request) ? HELD_BODY_BYTES : 0);
}

/**
 * Reads what the client of a WebSocket sends meanwhile: only of a socket that is read it is noticed that its client has
 * left. @returns ends that.
 */
export function readWhileHeld(arrived: { head: Buffer }, socket: Socket): () => void {
  const onData = (piece: Buffer): void => {
    arrived.head = Buffer.concat([arrived.head, piece]);
    if (arrived.head.length >= HELD_HEAD_BYTES) socket.pause();
  };
  const onEnd = (): void => void socket.destroy();
  socket.on('data', onData);
  socket.once('end', onEnd);
  if (arrived.head.length < HELD_HEAD_BYTES) socket.resume();
  return () => {
    socket.pause();
    socket.off('data', onData);
    socket.off('end', onEnd);
  };
}
