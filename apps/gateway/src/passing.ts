/**
 * Passes requests and WebSockets to backends. `httpxy` carries the bytes; here each piece of them is judged before it
 * is passed, in both directions: a process that was frozen finds in its sockets what was sent while it was, and what
 * it passed then would be an answer of a backend whose grant may be over.
 */
import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import net, { type Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { createProxyServer } from 'httpxy';
import { type AnswerPlace, headersForClient } from './headers.ts';
import { pump, type OnPiece } from './pump.ts';
import { cutOff, Refusal, type RefusalCode, refuse, refuseUpgrade } from './refusal.ts';
import type { ActiveRoute, RouteUser } from './routes.ts';
import { hasBody } from './target.ts';
import type { VerifiedToken } from './tokens.ts';

/** How long a backend may take to accept a connection, and to answer that it upgrades one. */
const CONNECT_MS_MAX = 5_000;
const UPGRADE_MS_MAX = 30_000;
/** How long one side of a WebSocket, or of a connection that got none, may stay open when the other has ended. */
const HALF_OPEN_MS_MAX = 5_000;
/** After so long without a byte, the system asks whether the other side is still there. */
const KEEP_ALIVE_MS = 30_000;

/** How often what is open is looked at, to find clients that hold up their own requests. */
export const LOOK_MS = 10_000;
/** A body that arrives slower than this for {@link SLOW_LOOKS_MAX} looks is given up. */
const BODY_BYTES_MIN = 1_024;
const SLOW_LOOKS_MAX = 3;
/** A client that has taken nothing of what was sent to it for so many looks is gone, or does not want it. */
const STUCK_LOOKS_MAX = 30;

/** What is counted of a request on its way. */
export interface PassingObserver {
  firstByte(passing: Passing): void;
  bytes(direction: 'in' | 'out', count: number): void;
}

interface Parts {
  readonly active: ActiveRoute;
  readonly token: VerifiedToken;
  readonly requestId: string;
  readonly place: AnswerPlace;
  readonly request: Passed;
  /** The socket of a WebSocket. */
  readonly to: ServerResponse | Socket;
  /** When it came. */
  readonly beganAtMs: number;
}

/** The backend could not be asked, or ended the connection without an answer. Nothing was sent to the client. */
export class BackendFailed extends Error {
  override readonly name = 'BackendFailed';
  readonly repeat: Repeat;

  constructor(repeat: Repeat, cause: unknown) {
    super('the backend did not answer', { cause });
    this.repeat = repeat;
  }
}

/** How often a request may be passed again: `always` if there was no connection, so that nothing was sent. */
type Repeat = 'always' | 'once' | 'never';

/** What a client is told of whatever its request has failed by. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (!(error instanceof BackendFailed)) return new Refusal('gateway.failed', { cause: error });
  const code = error.repeat === 'never' ? 'gateway.backend_failed' : 'gateway.backend_unreachable';
  return new Refusal(code, { cause: error });
}

/** The backend took no connection in time. */
class NotConnected extends Error {
  override readonly name = 'NotConnected';

  constructor() {
    super('no connection in time');
  }
}

/** Replaced with each look, never changed. */
const NOT_LOOKED = { in: 0, out: 0, pending: 0 };

/** A request, or a WebSocket, on its way. */
export class Passing implements RouteUser {
  readonly parts: Parts;
  readonly #clock: TickingClock;
  place = 0;
  /** What it is passed to, once it is. */
  outgoing: ClientRequest | Socket | undefined;
  /** Why the gateway has ended it. */
  endedBy: RefusalCode | undefined;
  isOpen = false;
  /** Of its backend. */
  answer: IncomingMessage | undefined;
  /** Bytes since it began. */
  readonly bytes = { in: 0, out: 0 };
  #looked = NOT_LOOKED;
  #slowLooks = 0;
  #stuckLooks = 0;

  constructor(parts: Parts, clock: TickingClock) {
    this.parts = parts;
    this.#clock = clock;
  }

  get user(): string {
    return this.parts.token.claims.sub;
  }

  /** Whether a piece may be passed now. Otherwise all of it ends. */
  mayPass(): boolean {
    if (this.endedBy !== undefined) return false;
    if (this.parts.active.isValid(this.#clock.nowMs())) return true;
    this.end('gateway.route_over');
    return false;
  }

  /** Gives up a new connection to the backend that is not made in {@link CONNECT_MS_MAX}. */
  boundConnect(outgoing: ClientRequest): void {
    const { socket } = outgoing;
    if (socket?.connecting !== true) return;
    const cancel = this.#clock.at(this.#clock.nowMs() + CONNECT_MS_MAX, () => {
      outgoing.destroy(new NotConnected());
    });
    socket.once('connect', cancel);
    socket.once('close', cancel);
  }

  /** Ends it if its client sends, or takes, next to nothing. To be called each {@link LOOK_MS}. */
  look(): void {
    const { request, to } = this.parts;
    const { in: got, out } = this.bytes;
    const last = this.#looked;
    const pending = to.writableLength;
    this.#looked = { in: got, out, pending };
    // A body that is paused waits for the backend.
    const isArriving = !(to instanceof net.Socket) && !request.complete && !request.isPaused();
    this.#slowLooks = isArriving && got - last.in < BODY_BYTES_MIN ? this.#slowLooks + 1 : 0;
    const isStuck = pending > 0 && pending === last.pending && out === last.out;
    this.#stuckLooks = isStuck ? this.#stuckLooks + 1 : 0;
    if (this.#slowLooks >= SLOW_LOOKS_MAX || this.#stuckLooks >= STUCK_LOOKS_MAX) {
      this.end('gateway.too_slow');
    }
  }

  /** Answers, if nothing was answered yet; else the client sees that its connection is cut. */
  end(code: RefusalCode): void {
    if (this.endedBy !== undefined) return;
    this.endedBy = code;
    const { to, request, requestId } = this.parts;
    const refusal = new Refusal(code);
    if (to instanceof net.Socket) {
      if (this.isOpen) to.destroy();
      // A second answer would be read as the rest of the first.
      else if (this.answer !== undefined) this.cut();
      else refuseUpgrade(refusal, { request, socket: to, requestId });
    } else if (to.headersSent) this.cut();
    else refuse(refusal, { request, response: to, requestId });
    this.outgoing?.destroy();
  }

  /** Lets the connection be over with its answer. Where that is in place of a WebSocket, its client may take a while. */
  closeAfterAnswer(): void {
    const { to } = this.parts;
    if (!(to instanceof net.Socket)) {
      to.shouldKeepAlive = false;
      const { socket } = to;
      // What its client was told about the connection is in the head.
      if (to.headersSent) to.once('finish', () => socket?.destroySoon());
      return;
    }
    // Only of a socket that is read it is noticed that its client has ended it too.
    to.resume();
    to.once('finish', () => {
      const cancel = this.#clock.at(this.#clock.nowMs() + HALF_OPEN_MS_MAX, () => to.destroy());
      to.once('close', cancel);
    });
  }

  /** Ends an answer that has begun, so that its client sees that it is not whole. */
  cut(): void {
    const { to } = this.parts;
    const socket = to instanceof net.Socket ? to : to.socket;
    if (socket !== null && !isFramed(this.parts)) cutOff(socket);
    else to.destroy();
  }
}

/** Whether an answer says itself where it ends. Otherwise it ends with its connection. */
function isFramed({ request, to }: Parts): boolean {
  // What is answered in place of an upgrade is passed as the backend has framed it.
  return !(to instanceof net.Socket) && request.httpVersion !== '1.0';
}

/** How it ended: with a whole answer, cut by the gateway, broken by the backend, or left by its client. */
export type Outcome = 'answered' | 'cut' | 'failed' | 'left';

export interface Passer {
  /** Resolves when the backend has taken a connection, which is closed again. @throws {BackendFailed} */
  reach(active: ActiveRoute): Promise<void>;
  /** Resolves when the answer has been passed, or has ended too early. @throws {BackendFailed} */
  request(passing: Passing): Promise<Outcome>;
  /** Resolves when the WebSocket is over. @throws {BackendFailed} */
  webSocket(passing: Passing, head: Buffer): Promise<Outcome>;
}

function outcomeOf({ endedBy, isOpen, answer, parts: { to } }: Passing): Outcome {
  if (endedBy !== undefined) return endedBy === 'gateway.backend_failed' ? 'failed' : 'cut';
  // Broken off by its backend.
  if (answer?.errored != null) return 'failed';
  return isOpen || to.writableFinished ? 'answered' : 'left';
}

export function createPasser(observer: PassingObserver): Passer {
  return {
    async reach(active) {
      const { host, port } = targetOf(active);
      (await connected(host, port)).destroy();
    },
    request: requestPasser(observer),
    webSocket: webSocketPasser(observer),
  };
}

/** On the request itself: a map of what comes and goes with each request costs a lot of memory, see `ActiveRoute`. */
const PASSING = Symbol('passing');
type Passed = IncomingMessage & { [PASSING]?: Passing | undefined };

function passingOf(request: Passed): Passing | undefined {
  return request[PASSING];
}

/** In place of the body of a request that has none: to pipe that would cost as much as all else that is done here. */
class NoBody extends Readable {
  override pipe<Destination extends NodeJS.WritableStream>(destination: Destination): Destination {
    destination.end();
    return destination;
  }

  /** The library lets it flow where an answer comes early: nothing comes. */
  override _read(): void {
    // Shared by all such requests, so it never ends.
  }
}
const NO_BODY = new NoBody();

/** The body of a request, as the library takes it. */
class Body extends Readable {
  readonly #request: IncomingMessage;
  readonly #onPiece: OnPiece;
  #isWanted = true;

  constructor(request: IncomingMessage, onPiece: OnPiece) {
    super();
    this.#request = request;
    this.#onPiece = onPiece;
  }

  override pipe<Destination extends NodeJS.WritableStream>(destination: Destination): Destination {
    const onPiece: OnPiece = (piece) => this.#isWanted && this.#onPiece(piece);
    pump(this.#request, destination, onPiece, lengthOf(this.#request));
    return destination;
  }

  /** Where the answer is over before it, the library lets the rest flow to nowhere. */
  override resume(): this {
    this.#isWanted = false;
    this.#request.resume();
    return this;
  }
}

function requestPasser(observer: PassingObserver): Passer['request'] {
  const proxy = createProxyServer({ selfHandleResponse: true });
  proxy.on('proxyReq', (outgoing, request) => {
    const passing = passingOf(request);
    if (passing?.mayPass() !== true) {
      outgoing.destroy();
      return;
    }
    passing.outgoing = outgoing;
    passing.boundConnect(outgoing);
    // Nobody asked for it. Without a listener the library would wait for an answer that does not come.
    outgoing.on('upgrade', () => passing.end('gateway.backend_failed'));
  });
  proxy.on('proxyRes', (answer, request, response) => {
    const passing = passingOf(request);
    if (passing === undefined || !mayAnswer(passing, answer)) {
      answer.destroy();
      return;
    }
    passing.parts.active.agent.heard(answer.headers['keep-alive']);
    const headers = headersForClient(answer.headers, passing.parts.place);
    headers.connection =
      response.shouldKeepAlive && request.httpVersion !== '1.0' ? 'keep-alive' : 'close';
    response.writeHead(answer.statusCode ?? 0, answer.statusMessage, headers);
    // Before the library's own listener, which ends the connection in good order.
    if (!isFramed(passing.parts)) answer.once('error', () => passing.cut());
    observer.firstByte(passing);
    pump(answer, response, judge(passing, 'out', observer), lengthOf(answer));
  });
  return async (passing) => {
    const { request, to, active } = passing.parts;
    if (to instanceof net.Socket) throw new TypeError('a request is answered by a response');
    request[PASSING] = passing;
    try {
      await proxy.web(request, to, {
        target: targetOf(active),
        agent: active.agent,
        buffer: hasBody(request) ? new Body(request, judge(passing, 'in', observer)) : NO_BODY,
      });
      return outcomeOf(passing);
    } catch (error) {
      if (passing.endedBy !== undefined) return outcomeOf(passing);
      if (!to.headersSent) throw new BackendFailed(repeatOf(request, passing, error), error);
      passing.cut();
      return 'failed';
    } finally {
      request[PASSING] = undefined;
    }
  };
}

/** How many bytes a body will have; undefined if its head does not tell. */
function lengthOf({ headers }: IncomingMessage): number | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  return length === undefined || encoding !== undefined ? undefined : Number(length);
}

/** What Node sends in a status line. */
const REASON = /^[\t\x20-\x7e\x80-\xff]*$/u;
const STATUS_MIN = 100;
const SWITCHING_PROTOCOLS = 101;

/**
 * Whether an answer of a backend may be passed. Node reads status lines that it refuses to write: to write one would
 * throw where nobody catches, and end the process.
 */
function mayAnswer(passing: Passing, answer: IncomingMessage, isUpgrade = false): boolean {
  if (!passing.mayPass()) return false;
  const { statusCode: status = 0 } = answer;
  // Its client would wait for the WebSocket, or for another answer.
  if (status < STATUS_MIN || (status === SWITCHING_PROTOCOLS && !isUpgrade)) {
    passing.end('gateway.backend_failed');
    return false;
  }
  passing.answer = answer;
  // What belongs to the status is sent instead.
  if (!REASON.test(answer.statusMessage ?? '')) answer.statusMessage = '';
  return true;
}

function judge(passing: Passing, direction: 'in' | 'out', observer: PassingObserver): OnPiece {
  return ({ length }) => {
    if (!passing.mayPass()) return false;
    passing.bytes[direction] += length;
    observer.bytes(direction, length);
    return true;
  };
}

interface BackendPlace {
  readonly protocol: 'http:';
  readonly host: string;
  readonly port: number;
}

/** Reading an address costs as much as all else that is done for a request here. */
const placeOf = new WeakMap<ActiveRoute, BackendPlace>();

function targetOf(active: ActiveRoute): BackendPlace {
  const known = placeOf.get(active);
  if (known !== undefined) return known;
  const { hostname, port } = new URL(`http://${active.route.address}`);
  const host = hostname.replaceAll(/[[\]]/gu, '');
  const place = { protocol: 'http:', host, port: Number(port) || 80 } as const;
  placeOf.set(active, place);
  return place;
}

/** No connection was made, so nothing was sent. */
const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EHOSTDOWN',
]);
/** May be carried out twice. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

function repeatOf(request: IncomingMessage, { outgoing }: Passing, error: unknown): Repeat {
  // A part of the body may be gone.
  if (hasBody(request)) return 'never';
  if (error instanceof NotConnected || NOT_CONNECTED.has(codeOf(error))) return 'always';
  const isReused = outgoing instanceof http.ClientRequest && outgoing.reusedSocket;
  return isReused && IDEMPOTENT.has(request.method ?? '') ? 'once' : 'never';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function webSocketPasser(observer: PassingObserver): Passer['webSocket'] {
  const proxy = createProxyServer();
  const bySocket = new WeakMap<Socket, Passing>();
  proxy.on('proxyReqWs', (outgoing, request) => {
    const passing = passingOf(request);
    if (passing === undefined) return;
    const accept = (answer: IncomingMessage, isUpgrade = false): boolean => {
      if (!mayAnswer(passing, answer, isUpgrade)) return false;
      answer.headers = headersForClient(answer.headers, passing.parts.place);
      observer.firstByte(passing);
      return true;
    };
    // Before the library's own listeners, which write to the client.
    outgoing.on('upgrade', (answer, backend: Socket) => {
      const { upgrade } = answer.headers;
      if (!accept(answer, true)) backend.destroy();
      else if (upgrade !== undefined) {
        answer.headers.upgrade = upgrade;
        answer.headers.connection = 'Upgrade';
      }
      bySocket.set(backend, passing);
    });
    outgoing.on('response', (answer) => {
      // It keeps its socket from being used again: the library writes the answer by hand.
      const { 'transfer-encoding': encoding } = answer.headers;
      if (accept(answer)) {
        if (encoding !== undefined) answer.headers['transfer-encoding'] = encoding;
        // Before the library's own listener, as above.
        answer.once('error', () => passing.cut());
        passing.closeAfterAnswer();
      } else answer.destroy();
      const mayPass = judge(passing, 'out', observer);
      answer.prependListener('data', mayPass);
    });
  });
  proxy.on('open', (backend) => {
    const passing = bySocket.get(backend);
    if (passing !== undefined) join(passing, backend, observer);
  });
  // The library closes the socket in the turn of an error: it is answered here or not at all.
  proxy.on('error', (_error, request) => {
    const passing = request === undefined ? undefined : passingOf(request);
    // What its client has left is no failure of the backend.
    if (passing?.parts.to.destroyed === true) passing.outgoing?.destroy();
    else passing?.end('gateway.backend_failed');
  });
  return async (passing, head) => {
    const { request, to, active } = passing.parts;
    if (!(to instanceof net.Socket)) throw new TypeError('a WebSocket has a socket');
    const { host, port } = targetOf(active);
    const backend = await connected(host, port);
    passing.outgoing = backend;
    // A client that has ended its side before there is an answer has left.
    if (to.readableEnded) to.destroy();
    to.once('end', () => {
      if (passing.answer === undefined) to.destroy();
    });
    if (to.destroyed || !passing.mayPass()) {
      backend.destroy();
      return outcomeOf(passing);
    }
    request[PASSING] = passing;
    const agent = new http.Agent();
    agent.createConnection = () => backend;
    const target = { protocol: 'http:', host, port };
    try {
      await proxy.ws(request, to, { target, agent, upgradeTimeout: UPGRADE_MS_MAX }, head);
      return outcomeOf(passing);
    } finally {
      request[PASSING] = undefined;
    }
  };
}

/** A connection to a backend: that one can be made is known before anything of the client is used up. */
async function connected(host: string, port: number): Promise<Socket> {
  const socket = net.connect({ host, port });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.setTimeout(CONNECT_MS_MAX, () => reject(new NotConnected()));
      socket.once('error', reject);
      socket.once('connect', resolve);
    });
    socket.setTimeout(0);
    return socket;
  } catch (error) {
    socket.destroy();
    throw new BackendFailed('always', error);
  }
}

/** Two sockets that are one WebSocket from now on: neither outlives the other. */
function join(passing: Passing, backend: Socket, observer: PassingObserver): void {
  const { to } = passing.parts;
  if (!(to instanceof net.Socket)) return;
  passing.isOpen = true;
  passing.outgoing = backend;
  // In the turn in which the library has begun to pipe: nothing has been passed.
  backend.unpipe(to);
  to.unpipe(backend);
  pump(to, backend, judge(passing, 'in', observer));
  pump(backend, to, judge(passing, 'out', observer));
  const cut = (): void => {
    to.destroy();
    backend.destroy();
  };
  for (const socket of [to, backend]) {
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.once('end', () => setTimeout(cut, HALF_OPEN_MS_MAX).unref());
    socket.on('error', cut);
  }
  to.once('close', () => backend.destroy());
  backend.once('close', () => to.destroySoon());
}
