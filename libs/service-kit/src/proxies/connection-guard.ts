/**
 * Keeps callers that are not known yet from using up connections. They are counted by address, in the order in which
 * they came. Where there are too many, the one that was silent for longest makes place: so a caller that shows a
 * token at once always finds a place, however many connections strangers hold open. A proxy is one address for many
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
  const strangers = new Places<Counted>(perAddressMax, unknownMax);
  const claiming = new Places<Counted>(perAddressMax, unknownMax);
  const addStranger = (address: string, counted: Counted): void => {
    strangers.add(address, counted);
    const surplus = strangers.takeSurplus(address);
    if (surplus !== undefined) ('socket' in surplus ? surplus.socket : surplus).destroy();
  };
  const forget = (counted: Counted): void => {
    strangers.remove(counted);
    claiming.remove(counted);
  };
  server.on('connection', (socket: Socket) => {
    const address = withoutMapping(socket.remoteAddress ?? '');
    if (sources.isProxyAddress(address)) return;
    addStranger(networkOf(address), socket);
    socket.once('close', () => forget(socket));
  });
  const countedOf = (request: IncomingMessage): Counted =>
    strangers.has(request) || claiming.has(request) ? request : request.socket;
  return {
    begin(request, response) {
      const { socket } = request;
      if (sources.isFromProxy(request)) {
        forget(socket);
        addStranger(networkOf(sources.of(request) ?? ''), request);
        const end = (): void => forget(request);
        response.once('close', end);
        // An answer that becomes a WebSocket never closes; its socket does.
        if (request.headers.upgrade !== undefined) socket.once('close', end);
      } else {
        response.once('close', () => {
          if (claiming.remove(socket) !== undefined && !socket.destroyed) {
            addStranger(networkOf(withoutMapping(socket.remoteAddress ?? '')), socket);
          }
        });
      }
    },
    claimed(request) {
      const counted = countedOf(request);
      const address = strangers.remove(counted);
      if (address === undefined) return true;
      if (claiming.isFull(address)) {
        strangers.add(address, counted);
        return false;
      }
      claiming.add(address, counted);
      return true;
    },
    known(request) {
      forget(request);
      forget(request.socket);
    },
  };
}

/** What is held, by address, oldest first. */
class Places<Held extends object> {
  readonly #all = new Map<Held, string>();
  readonly #byAddress = new Map<string, Set<Held>>();
  readonly #perAddressMax: number;
  readonly #max: number;

  constructor(perAddressMax: number, max: number) {
    this.#perAddressMax = perAddressMax;
    this.#max = max;
  }

  has(held: Held): boolean {
    return this.#all.has(held);
  }

  isFull(address: string): boolean {
    const count = this.#byAddress.get(address)?.size ?? 0;
    return count >= this.#perAddressMax || this.#all.size >= this.#max;
  }

  add(address: string, held: Held): void {
    this.#all.set(held, address);
    const own = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, own.add(held));
  }

  /** @returns the address that it was held for, if it was. */
  remove(held: Held): string | undefined {
    const address = this.#all.get(held);
    if (address === undefined) return undefined;
    this.#all.delete(held);
    const own = this.#byAddress.get(address);
    own?.delete(held);
    if (own?.size === 0) this.#byAddress.delete(address);
    return address;
  }

  /** Takes away the oldest, if there is one too many of this address or of all. */
  takeSurplus(address: string): Held | undefined {
    const own = this.#byAddress.get(address);
    const isOver = own !== undefined && own.size > this.#perAddressMax;
    if (!isOver && this.#all.size <= this.#max) return undefined;
    const [oldest] = isOver ? own : this.#all.keys();
    if (oldest !== undefined) this.remove(oldest);
    return oldest;
  }
}
