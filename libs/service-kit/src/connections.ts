/**
 * Keeps callers that are not known yet from using up connections. They are counted by address, in the order in which
 * they came. Where there are too many, one whose token was refused makes place, or else the one that was silent for
 * longest: so a caller that shows a token at once always finds a place, however many connections strangers hold open. A proxy is one address for many
 * callers: its connections do not count, and the requests on them count for the addresses that they come from.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import https from 'node:https';
import { isIP, isIPv6, type Socket } from 'node:net';
import proxyAddr from '@fastify/proxy-addr';

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
  /** Whether nobody who is known has sent a request over this connection, and no proxy has it. */
  isStrange(socket: Socket): boolean;
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
  const welcome = (socket: Socket): void => {
    const address = withoutMapping(socket.remoteAddress ?? '');
    if (sources.isProxyAddress(address)) return;
    strangers.welcome(networkOf(address), socket);
    socket.once('close', () => strangers.forget(socket));
  };
  server.on('connection', welcome);
  watchHandshakes(server, (socket, accepted) => {
    strangers.forget(accepted);
    welcome(socket);
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
      } else if (strangers.holds(socket)) response.once('close', () => strangers.refuse(socket));
    },
    claimed: (request) => strangers.claim(strangers.has(request) ? request : request.socket),
    known(request) {
      strangers.forget(request);
      strangers.forget(request.socket);
    },
    isStrange: (socket) => strangers.holds(socket),
  };
}

/** With TLS, requests come over another socket than the one that was accepted, which only its ends name. */
function watchHandshakes(
  server: Server,
  onSecure: (socket: Socket, accepted: Socket) => void,
): void {
  if (!(server instanceof https.Server)) return;
  const nameOf = ({ remoteAddress, remotePort }: Socket): string =>
    `${String(remoteAddress)} ${String(remotePort)}`;
  const begun = new Map<string, Socket>();
  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket);
    begun.set(name, socket);
    socket.once('close', () => begun.delete(name));
  });
  server.on('secureConnection', (socket: Socket) => {
    const accepted = begun.get(nameOf(socket));
    if (accepted !== undefined) onSecure(socket, accepted);
  });
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

  /** Whether it counts. Nothing makes count again what does not: its caller is known. */
  holds(counted: Counted): boolean {
    return this.has(counted) || this.#refused.has(counted);
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

/**
 * Bounds how many requests of one socket are under way: clients send one after the other, and one read of a
 * socket can bring thousands.
 *
 * When a socket closes, all of its answers are over. Node ends only the one that is being sent: those behind it would
 * never emit `close`, and whatever waits for that would be kept.
 * @returns begins a request. False: its socket had too many, and is closed.
 */
export function boundAnswers(
  max: number,
): (request: Pick<IncomingMessage, 'socket'>, response: ServerResponse) => boolean {
  // A list, which is short: the old tables of a set that changes with each request would keep answers in memory.
  const answers = new WeakMap<Socket, UnderWay>();
  const answersOf = (socket: Socket): UnderWay => {
    const known = answers.get(socket);
    if (known !== undefined) return known;
    const own: ServerResponse[] = [];
    // One for all answers of a socket.
    function onClose(this: ServerResponse): void {
      const place = own.indexOf(this);
      if (place !== -1) own.splice(place, 1);
    }
    const underWay = { own, onClose };
    answers.set(socket, underWay);
    socket.once('close', () => {
      for (const response of [...own]) if (response.socket === null) end(response);
    });
    return underWay;
  };
  return ({ socket }, response) => {
    const { own, onClose } = answersOf(socket);
    if (own.length >= max) {
      socket.destroy();
      return false;
    }
    own.push(response);
    response.on('close', onClose);
    return true;
  };
}

/** The answers of a socket, and what takes one of them away. */
interface UnderWay {
  readonly own: ServerResponse[];
  readonly onClose: (this: ServerResponse) => void;
}

function end(response: ServerResponse): void {
  response.destroy();
  response.emit('close');
}

/**
 * Closes a socket that brings more than `requestsMax` requests at once, before they are parsed: to make the objects of two
 * thousand requests takes fifty milliseconds, even if none is answered. The head of each ends with an empty
 * line, of which JSON has none but between its parts.
 */
export function closePipelining(
  server: Server,
  requestsMax: number,
  { hasWebSockets = false } = {},
): void {
  function look(this: Socket, chunk: Buffer): void {
    if (emptyLinesIn(chunk, requestsMax) <= requestsMax) return;
    this.destroy();
    // The parser is given this piece too, and finds no request in it.
    chunk.fill(0);
  }
  server.on('connection', (socket: Socket) => {
    // After the server's own listener, which it takes the place of.
    socket.prependListener('data', look);
  });
  // A listener for upgrades makes Node answer none of them as an ordinary request.
  if (hasWebSockets) {
    server.on('upgrade', ({ socket }: IncomingMessage) => socket.off('data', look));
  }
}

/** How many empty lines there are; one more than `countMax` if there are more. */
function emptyLinesIn(chunk: Buffer, countMax: number): number {
  let count = 0;
  for (const ending of ['\n\r\n', '\n\n']) {
    for (let at = chunk.indexOf(ending); at >= 0; at = chunk.indexOf(ending, at + 2)) {
      count += 1;
      if (count > countMax) return count;
    }
  }
  return count;
}

const RATE_MS = 1_000;
/** One that goes on after this many times its rate is not answered any more: answers cost too. */
const CLOSED_TIMES = 2;

/** A connection gets as many whatever others of its address ask: somebody behind the same proxy is served. */
const PER_CONNECTION_MIN = 20;

/**
 * Counts answers that need no token, by address: in each second so many are given, as many more refused, and the
 * connections of what comes after that are to be closed. One that has asked for little is answered in any case.
 * @param nowMs a monotonic reading, in milliseconds.
 */
export function createAnswerRate({
  perSecondMax,
  nowMs,
}: {
  readonly perSecondMax: number;
  readonly nowMs: () => number;
}): (address: string, connection: object) => 'answer' | 'refuse' | 'close' {
  const counts = new Map<string | object, number>();
  const countOf = (what: string | object): number => {
    const count = (counts.get(what) ?? 0) + 1;
    counts.set(what, count);
    return count;
  };
  let sinceMs = Number.NEGATIVE_INFINITY;
  return (address, connection) => {
    if (nowMs() - sinceMs >= RATE_MS) {
      sinceMs = nowMs();
      counts.clear();
    }
    const count = countOf(networkOf(withoutMapping(address)));
    const isLittle = countOf(connection) <= PER_CONNECTION_MIN;
    if (count <= perSecondMax || isLittle) return 'answer';
    return count <= perSecondMax * CLOSED_TIMES ? 'refuse' : 'close';
  };
}

// Where a request comes from. A proxy knows, and its own address proves nothing: any program on its machine has the
// same one. So the console proves itself by a secret. Other proxies speak `x-forwarded-for` alone, and are believed
// if an operator has listed their address.

/** Has the secret of the console. */
export const CONSOLE_SECRET_HEADER = 'leasehold-console-secret';
/** Where a request comes from that the console passes on, as the console has found out. */
export const CALLER_HEADER = 'leasehold-caller';

export interface Sources {
  /** The address that a request comes from, as far as it can be believed. */
  of(request: IncomingMessage): string | null;
  /** Whether the other end of its connection is a proxy that is believed, which passes on requests of many. */
  isFromProxy(request: IncomingMessage): boolean;
  /** Whether an address is that of a proxy that is believed. */
  isProxyAddress(address: string): boolean;
}

/** Whether a text is an address or a network that may be trusted, as in 10.0.0.0/8 or ::1. */
export function isTrustedProxy(text: string): boolean {
  try {
    // The library takes more: names of ranges, and addresses without their end.
    if (!isAddress(text.replace(/\/\d{1,3}$/u, '')) || /\/0+$/u.test(text)) return false;
    proxyAddr.compile([text]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Finds out where requests come from.
 * - A request with the secret of the console comes from where the console says.
 * - Else what `x-forwarded-for` says counts as long as a trusted proxy says it: it is read from its end, and the first
 *   address that is not a trusted proxy is the caller's. A direct caller can write anything into it. Text that is no
 *   address is ignored, and so is everything before it: then the caller is the proxy that wrote it.
 */
export function createSources({
  trustedProxies,
  consoleSecret = null,
  onWrongSecret,
}: {
  readonly trustedProxies: readonly string[];
  /** null: no console is believed. */
  readonly consoleSecret?: string | null;
  /** Called when a request has another secret: a console has the wrong one, or somebody guesses. */
  readonly onWrongSecret?: (() => void) | undefined;
}): Sources {
  const compiled = proxyAddr.compile([...trustedProxies]);
  const trusts = (address: string): boolean => compiled(address, 0);
  const isConsole = consoleCheck(consoleSecret, onWrongSecret);
  return {
    of(request) {
      const peer = request.socket.remoteAddress;
      if (peer === undefined) return null;
      if (isConsole(request)) {
        const said = request.headers[CALLER_HEADER];
        if (typeof said === 'string' && isAddress(said)) return withoutMapping(said);
        return withoutMapping(peer);
      }
      let source = withoutMapping(peer);
      for (const hop of hopsOf(request).reverse()) {
        if (!trusts(source) || !isAddress(hop)) break;
        source = withoutMapping(hop);
      }
      return source;
    },
    isFromProxy(request) {
      if (isConsole(request)) return true;
      // Asked several times for each request.
      if (trustedProxies.length === 0) return false;
      const peer = request.socket.remoteAddress;
      return peer !== undefined && trusts(withoutMapping(peer));
    },
    isProxyAddress: (address) => isIP(address) !== 0 && trusts(withoutMapping(address)),
  };
}

/** Compares hashes in constant time: the time that it takes reveals nothing about the secret. */
function consoleCheck(
  secret: string | null,
  onWrongSecret: (() => void) | undefined,
): (request: IncomingMessage) => boolean {
  if (secret === null) return () => false;
  const expected = hashOf(secret);
  // Asked several times for one request.
  const known = new WeakMap<IncomingMessage, boolean>();
  return (request) => {
    const said = request.headers[CONSOLE_SECRET_HEADER];
    if (typeof said !== 'string') return false;
    const before = known.get(request);
    if (before !== undefined) return before;
    const isRight = timingSafeEqual(hashOf(said), expected);
    known.set(request, isRight);
    if (!isRight) onWrongSecret?.();
    return isRight;
  };
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function hopsOf(request: IncomingMessage): string[] {
  const said = [request.headers['x-forwarded-for'] ?? []].flat();
  return said.flatMap((text) => text.split(',')).map((hop) => hop.trim());
}

/** A zone means something only on its own machine, and may be any text. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%');
}

/**
 * The caller that an address stands for where callers are counted: the owner of an IPv6 address has the whole /64
 * that it is in.
 */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('%', 1)[0]?.split('::') ?? [];
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array<string>(Math.max(0, 8 - groups.length - rest.length)).fill('0');
  const network = [...groups, ...(tail === undefined ? [] : zeros), ...rest].slice(0, 4);
  return `${network.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

/** An IPv4 address stays one, also where a socket for both kinds shows it as IPv6. */
export function withoutMapping(address: string): string {
  // Asked with each request.
  if (!address.startsWith('::')) return address;
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/iu.exec(address)?.[1] ?? address;
}
