/** How the gateway itself answers: with a code, a sentence that any user may see, and the id of the request. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { networkOf, withoutMapping } from '@leasehold/service-kit/source-address';

/** What the gateway refuses, with the HTTP status and what a user is told. Nothing of a program is in it. */
const REFUSALS = {
  'gateway.bad_request': [400, 'The request is malformed.'],
  'gateway.token_required': [401, 'This address needs a token. Open it from where you found it.'],
  'gateway.token_invalid': [401, 'The token is not valid.'],
  'gateway.token_expired': [
    401,
    'The token has expired. Open the address from where you found it.',
  ],
  'gateway.token_revoked': [403, 'The access was revoked.'],
  'gateway.wrong_key': [403, 'The token is for another address.'],
  'gateway.grant_ended': [403, 'What the token was for has ended.'],
  'gateway.cross_origin': [403, 'The request comes from another site.'],
  'gateway.not_found': [404, 'Nothing is here.'],
  'gateway.not_running': [404, 'It does not run, and the token does not allow to start it.'],
  'gateway.method': [405, 'The method is not allowed.'],
  'gateway.too_slow': [408, 'The request took too long to arrive.'],
  'gateway.wrong_host': [421, 'The gateway does not serve this host.'],
  'gateway.start_failed': [502, 'It could not be started.'],
  'gateway.backend_unreachable': [502, 'It cannot be reached.'],
  'gateway.backend_failed': [502, 'It ended the connection without an answer.'],
  'gateway.unsupported': [501, 'The gateway upgrades connections to WebSockets only.'],
  'gateway.busy': [503, 'Too many requests wait. Try again.'],
  'gateway.wait_over': [503, 'It was not ready in time. Try again.'],
  'gateway.route_over': [503, 'It has moved or ended. Try again.'],
  'gateway.elsewhere': [503, 'It runs in another datacenter.'],
  'gateway.cut_off': [503, 'The gateway cannot reach its controller. Try again.'],
  'gateway.stopping': [503, 'The gateway stops. Try again.'],
  'gateway.failed': [500, 'The gateway has failed.'],
} as const satisfies Readonly<Record<string, readonly [number, string]>>;

export type RefusalCode = keyof typeof REFUSALS;

/** The request is not passed on. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  /** The controller's own code, for the owner; it names no secret. */
  readonly reason: string | undefined;

  constructor(
    code: RefusalCode,
    { reason, cause }: { reason?: string | undefined; cause?: unknown } = {},
  ) {
    super(REFUSALS[code][1], { cause });
    this.code = code;
    this.reason = reason;
  }

  get status(): number {
    return REFUSALS[this.code][0];
  }
}

/** How long a client waits before it tries again, in seconds. */
const RETRY_AFTER_SECONDS = 1;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A page for people, JSON for programs. */
function answerOf(refusal: Refusal, request: IncomingMessage, requestId: string): Answer {
  const { code, message, status, reason } = refusal;
  const isForPeople = request.headers.accept?.includes('text/html') ?? false;
  // All of it is made of constants and of ids whose characters were checked: nothing is to be escaped.
  const body = isForPeople
    ? `<!doctype html><meta charset="utf-8"><title>${String(status)}</title><p>${message}</p>` +
      `<p><small>${[code, reason, requestId].filter((part) => part !== undefined).join(' · ')}</small></p>\n`
    : `${JSON.stringify({ error: { code, message, reason, requestId } })}\n`;
  return {
    status,
    body,
    headers: {
      'content-type': isForPeople ? 'text/html; charset=utf-8' : 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
      ...(status === 503 ? { 'retry-after': String(RETRY_AFTER_SECONDS) } : {}),
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
      ...(status === 405 ? { allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' } : {}),
    },
  };
}

/** Answers a request. What is left of its body is not read: the connection ends. */
export function refuse(
  refusal: Refusal,
  {
    request,
    response,
    requestId,
  }: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly requestId: string;
  },
): void {
  const { status, headers, body } = answerOf(refusal, request, requestId);
  if (!request.complete) response.setHeader('connection', 'close');
  response.writeHead(status, headers);
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** Answers a request that would have become a WebSocket, and closes its socket. */
export function refuseUpgrade(
  refusal: Refusal,
  {
    request,
    socket,
    requestId,
  }: {
    readonly request: IncomingMessage;
    readonly socket: Duplex;
    readonly requestId: string;
  },
): void {
  if (!socket.writable) return;
  const { status, headers, body } = answerOf(refusal, request, requestId);
  const lines = Object.entries({ ...headers, connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.end(
    `HTTP/1.1 ${String(status)} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`,
    () => socket.destroy(),
  );
}

/** Answers a request that could not be read, and closes its socket. @returns why; undefined when its connection has ended. */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Duplex,
): RefusalCode | undefined {
  const { code } = error;
  if (socket.writable && code !== 'ECONNRESET') {
    const status =
      code === 'HPE_HEADER_OVERFLOW'
        ? '431 Request Header Fields Too Large'
        : code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? '408 Request Timeout'
          : '400 Bad Request';
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () =>
      socket.destroy(),
    );
  } else socket.destroy();
  return clientErrorCode(error);
}

/** Why a request that could not be read is refused; undefined when its connection has failed or ended. */
function clientErrorCode({ code = '' }: NodeJS.ErrnoException): RefusalCode | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'gateway.too_slow';
  const isRead = code.startsWith('HPE_') && code !== 'HPE_INVALID_EOF_STATE';
  return isRead ? 'gateway.bad_request' : undefined;
}

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

/** Keeps strangers from having the gateway read and answer them as fast as they ask. */
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
