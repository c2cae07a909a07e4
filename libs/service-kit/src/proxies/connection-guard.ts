/**
 * Keeps callers that are not known yet from using up connections. They are counted by address, in the order in which
 * they came. Where there are too many, one whose token was refused makes place, or else the one that was silent for
 * longest: so a caller that shows a token at once always finds a place, however many connections strangers hold open. A proxy is one address for many
 * callers: its connections do not count, and the requests on them count for the addresses that they come from.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf, withoutMapping } from './network.ts';
import type { Sources } from './source-address.ts';

/** TCP connections that are open at once, of all callers. */
const CONNECTIONS_MAX = 20_000;
/** Of these, the ones whose callers may be unknown: the others are kept for known callers. */
const UNKNOWN_MAX = 10_000;

export interface ConnectionGuard {
  /** Begins a request, whose caller is not known yet. */
  begin(request: IncomingMessage, response: Pick<ServerResponse, 'once'>): void;
  /**
   * Notes that the caller has shown a token, which is being looked up: its request makes no place for others until it
   * is answered. @returns false if too many of its address are being looked up.
   */
  claimed(request: IncomingMessage): boolean;
  /** Notes that the caller of a request is known: neither it nor its connection counts any more. */
  known(request: IncomingMessage): void;
}

/** What counts: a connection, or a request that a proxy passes on. */
type Counted = Socket | IncomingMessage;

export function guardConnections(
  server: Server,
  {
    perAddressMax,
    sources,
    connectionsMax = CONNECTIONS_MAX,
    unknownMax = UNKNOWN_MAX,
  }: {
    /** Connections, and requests through proxies, that an address may have while their callers are unknown. */
    readonly perAddressMax: number;
    readonly sources: Sources;
    readonly connectionsMax?: number;
    readonly unknownMax?: number;
  },
): ConnectionGuard {
  server.maxConnections = connectionsMax;
  const strangers = new Strangers(perAddressMax, unknownMax);
  server.on('connection', (socket: Socket) => {
    const address = withoutMapping(socket.remoteAddress ?? '');
    if (sources.isProxyAddress(address)) return;
    strangers.welcome(networkOf(address), socket);
    socket.once('close', () => strangers.forget(socket));
  });
  return {
    begin(request, response) {
      const { socket } = request;
      if (sources.isFromProxy(request)) {
        strangers.forget(socket);
        strangers.welcome(networkOf(sources.of(request) ?? ''), request);
        const end = (): void => strangers.forget(request);
        response.once('close', end);
        // An answer that becomes a WebSocket never closes; its socket does.
        if (request.headers.upgrade !== undefined) socket.once('close', end);
      } else response.once('close', () => strangers.refuse(socket));
    },
    claimed: (request) => strangers.claim(strangers.has(request) ? request : request.socket),
    known(request) {
      strangers.forget(request);
      strangers.forget(request.socket);
    },
  };
}

/** Callers that are not known yet. */
class Strangers {
  /** Have shown no token. */
  readonly #newcomers = new Places<Counted>();
  /** Their token is being looked up. */
  readonly #claiming = new Places<Counted>();
  /** Their token was no good. */
  readonly #refused = new Places<Counted>();
  readonly #perAddressMax: number;
  readonly #max: number;

  constructor(perAddressMax: number, max: number) {
    this.#perAddressMax = perAddressMax;
    this.#max = max;
  }

  has(counted: Counted): boolean {
    return this.#newcomers.has(counted) || this.#claiming.has(counted);
  }

  welcome(address: string, counted: Counted): void {
    this.#newcomers.add(address, counted);
    this.#makePlace(address);
  }

  /** @returns false if too many are being looked up. */
  claim(counted: Counted): boolean {
    const address = this.#newcomers.addressOf(counted) ?? this.#refused.addressOf(counted);
    if (address === undefined) return true;
    const isFull = this.#claiming.count(address) >= this.#perAddressMax;
    if (isFull || this.#claiming.count() >= this.#max) return false;
    this.forget(counted);
    this.#claiming.add(address, counted);
    return true;
  }

  /** Ends a look-up that has found nobody. */
  refuse(socket: Socket): void {
    const address = this.#claiming.remove(socket);
    if (address === undefined || socket.destroyed) return;
    // Not as a newcomer: it would push out those who came while its token was looked up.
    this.#refused.add(address, socket);
    this.#makePlace(address);
  }

  forget(counted: Counted): void {
    for (const places of [this.#newcomers, this.#claiming, this.#refused]) places.remove(counted);
  }

  /** Ends one if there is one too many of this address or of all. */
  #makePlace(address: string): void {
    const count = (of?: string): number => this.#newcomers.count(of) + this.#refused.count(of);
    const isOver = count(address) > this.#perAddressMax;
    if (!isOver && count() <= this.#max) return;
    const from = isOver ? address : undefined;
    const oldest = this.#refused.oldest(from) ?? this.#newcomers.oldest(from);
    if (oldest === undefined) return;
    this.forget(oldest);
    ('socket' in oldest ? oldest.socket : oldest).destroy();
  }
}

/** What is held, by address, oldest first. */
class Places<Held extends object> {
  readonly #all = new Map<Held, string>();
  readonly #byAddress = new Map<string, Set<Held>>();

  has(held: Held): boolean {
    return this.#all.has(held);
  }

  /** The address that this is held for, if it is. */
  addressOf(held: Held): string | undefined {
    return this.#all.get(held);
  }

  /** How many are held for an address, or in all. */
  count(address?: string): number {
    return address === undefined ? this.#all.size : (this.#byAddress.get(address)?.size ?? 0);
  }

  /** The oldest of an address, or of all. */
  oldest(address?: string): Held | undefined {
    const held = address === undefined ? this.#all : this.#byAddress.get(address);
    return held?.keys().next().value;
  }

  add(address: string, held: Held): void {
    this.#all.set(held, address);
    const own = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, own.add(held));
  }

  /** @returns the address that it was held for, if it was. */
  remove(held: Held): string | undefined {
    const address = this.addressOf(held);
    if (address === undefined) return undefined;
    this.#all.delete(held);
    const own = this.#byAddress.get(address);
    own?.delete(held);
    if (own?.size === 0) this.#byAddress.delete(address);
    return address;
  }
}
