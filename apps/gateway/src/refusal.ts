/**
 * How the gateway itself answers: with a code, a sentence that any user may see, and the id of the request. And how a
 * connection goes on, or is cut off, over which an answer is still being sent.
 */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

/** What the gateway refuses, with the HTTP status and what a user is told. Nothing of a program is in it. */
const REFUSALS = {
  'gateway.bad_request': [400, 'The request is malformed.'],
  'gateway.token_required': [
    401,
    'This address needs a token, and one that was here may have expired. Open it from where you found it.',
  ],
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
  'gateway.crash_loop': [503, 'It fails at each start. The next start is in a while.'],
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
  /** When it may be different, if that is known. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: RefusalCode,
    {
      reason,
      retryAfterSeconds,
      cause,
    }: { reason?: string | undefined; retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(REFUSALS[code][1], { cause });
    this.code = code;
    this.reason = reason;
    this.retryAfterSeconds = retryAfterSeconds;
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
  const retryAfterSeconds =
    refusal.retryAfterSeconds ?? (status === 503 ? RETRY_AFTER_SECONDS : undefined);
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
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
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

/** The answer that is being sent over a socket, or is next: what is written beside it would become a part of it. */
function answerOn(socket: Duplex): ServerResponse | undefined {
  // Node keeps it there for the same purpose.
  const { _httpMessage: answer } = socket as Duplex & { _httpMessage?: ServerResponse | null };
  return answer ?? undefined;
}

/**
 * Serves what has come over a socket when the answer before it has been sent. Nobody asks for more before that is
 * complete: then the socket is cut off, and `onEarly` called.
 */
export function serveAfterAnswer(
  socket: Duplex,
  { serve, onEarly }: { readonly serve: () => void; readonly onEarly: () => void },
): void {
  const answer = answerOn(socket);
  if (answer === undefined) serve();
  else if (answer.writableEnded) {
    // Its last byte may have arrived. Node has its own listener before this one: the next answer is there, or none.
    answer.once('finish', () => {
      // Not where it was the last answer of its connection.
      if (socket.writable) serveAfterAnswer(socket, { serve, onEarly });
    });
  } else {
    onEarly();
    cutOff(socket);
  }
}

/** Ends a socket so that an answer that it is sending is not taken for a whole one, whatever says where that ends. */
export function cutOff(socket: Duplex): void {
  // Over TLS, what was not ended in good order is seen to be cut.
  if (socket instanceof Socket && !(socket instanceof TLSSocket) && !socket.destroyed) {
    socket.resetAndDestroy();
  } else socket.destroy();
}

/** Answers a request that could not be read, and closes its socket. @returns why; undefined when its connection has ended. */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Duplex,
): RefusalCode | undefined {
  const { code } = error;
  const answer = answerOn(socket);
  // It is whole when nothing is written after it.
  if (answer?.writableEnded === true) socket.end(() => socket.destroy());
  else if (answer?.headersSent === true) cutOff(socket);
  else if (socket.writable && code !== 'ECONNRESET') {
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
