/**
 * Passes requests on to the controller, and its answers back as they come: nothing is buffered, so
 * that events reach the browser when they happen, except for an answer that a page wants to have made
 * small, see {@link LightAnswers}. A client that goes away ends its request at the
 * controller too. One of several controllers is kept as long as it answers; a request that was not
 * sent to it goes to the next.
 */
import { createHash, randomUUID } from 'node:crypto';
import http, {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import https from 'node:https';
import { pipeline } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { ERROR_CODES, type ErrorCode } from '@leasehold/keys-core';
import type { Logger } from '@leasehold/service-kit';
import { ControllerChoice } from '@leasehold/service-kit/controllers';
import {
  CALLER_HEADER,
  CONSOLE_SECRET_HEADER,
  createSources,
} from '@leasehold/service-kit/source-address';
import { DELTA_TYPE, deltaBetween, HAVE_HEADER, TAG_HEADER } from '~/lib/api/json-delta.ts';

// Answers to the queries of a page, made small: a page asks the same again and again, so it gets what has
// changed since the answer that it has, and what is still large is compressed. Only for requests with a
// header that asks for it. A page of another site cannot send that header, so nobody can make a browser ask
// for answers whose compressed length tells what else is in them. Answers about a session hold a secret and
// are never compressed.

/** A larger answer is passed on as it comes. */
const ANSWER_BYTES_MAX = 2 * 1_048_576;
/** What was sent to all pages, to compare with; the oldest is dropped first. */
const KEPT_BYTES_MAX = 32 * 1_048_576;
/** A smaller one fits into one packet as it is. */
const COMPRESSED_FROM_BYTES = 1_024;
/** The answer has the CSRF token of the session. */
const SECRET = '/trpc/session.';

const UNCHANGED = Buffer.from('null');

const compress = promisify(gzip);

/** Whether a page asked for this answer so that it may be made small. */
function mayBeLight(request: IncomingMessage, answer: IncomingMessage): boolean {
  return (
    request.method === 'GET' &&
    request.headers[HAVE_HEADER] !== undefined &&
    request.url?.startsWith('/trpc/') === true &&
    answer.statusCode === 200 &&
    answer.headers['content-type']?.startsWith('application/json') === true &&
    answer.headers['content-encoding'] === undefined &&
    Number(answer.headers['content-length'] ?? 0) <= ANSWER_BYTES_MAX
  );
}

/** Keeps what was sent, and sends what has changed. */
class LightAnswers {
  readonly #kept = new Map<string, Buffer>();
  #keptBytes = 0;

  /** Sends an answer that {@link mayBeLight}. @throws when it does not arrive whole. */
  async send(
    request: IncomingMessage,
    answer: IncomingMessage,
    { response, headers }: { response: ServerResponse; headers: OutgoingHttpHeaders },
  ): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const asker = askerOf(request);
    const tag = hashOf(body);
    const have = String(request.headers[HAVE_HEADER]);
    const before = this.#kept.get(asker + have);
    const delta =
      have === tag ? UNCHANGED : before === undefined ? undefined : deltaOf(before, body);
    this.#keep(asker + tag, body);
    const content = delta ?? body;
    const isCompressed = isWorthIt(request, content);
    const sent = isCompressed ? await compress(content) : content;
    response.writeHead(200, {
      ...headers,
      [TAG_HEADER]: tag,
      ...(delta === undefined ? {} : { 'content-type': DELTA_TYPE }),
      ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
      'content-length': sent.byteLength,
    });
    response.end(sent);
  }

  #keep(key: string, body: Buffer): void {
    const known = this.#kept.get(key);
    this.#kept.delete(key);
    this.#kept.set(key, body);
    this.#keptBytes += body.byteLength - (known?.byteLength ?? 0);
    for (const [oldest, { byteLength }] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES_MAX) break;
      this.#kept.delete(oldest);
      this.#keptBytes -= byteLength;
    }
  }
}

/** Undefined where the answer is sent whole: it cannot be compared, or the delta is no shorter. */
function deltaOf(before: Buffer, body: Buffer): Buffer | undefined {
  try {
    const delta = deltaBetween(JSON.parse(before.toString()), JSON.parse(body.toString()));
    const text = Buffer.from(JSON.stringify(delta ?? null));
    return text.byteLength < body.byteLength ? text : undefined;
  } catch {
    // Such as one that is nested very deep.
    return undefined;
  }
}

/** One session, and one question: its answers are compared with each other alone. */
function askerOf({ headers, url }: IncomingMessage): string {
  return hashOf(JSON.stringify([headers.cookie, headers.authorization, url]));
}

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('base64url');
}

function isWorthIt({ headers, url }: IncomingMessage, content: Buffer): boolean {
  return (
    content.byteLength >= COMPRESSED_FROM_BYTES &&
    /\bgzip\b/u.test(String(headers['accept-encoding'])) &&
    url?.startsWith(SECRET) !== true
  );
}

interface PassThroughOptions {
  readonly controllerUrls: readonly string[];
  /** For how long the controller may be silent before its answer begins. */
  readonly answerTimeoutMs: number;
  /** Called when the controller has let the caller of a request in. */
  readonly onKnown?: ((request: IncomingMessage) => void) | undefined;
  readonly log: Logger;
}

interface PassThrough {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Ends every stream of events: a client connects again, and reaches the next console. */
  endStreams(): void;
  /** Closes the connections to the controller that are kept for later. */
  close(): void;
}

export function createPassThrough(options: PassThroughOptions): PassThrough {
  const { log } = options;
  const choice = new ControllerChoice(options.controllerUrls);
  const agents: Agents = {
    plain: new http.Agent({ keepAlive: true }),
    tls: new https.Agent({ keepAlive: true }),
  };
  const streams = new Set<ServerResponse>();
  const light = new LightAnswers();

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (hasUselessBody(request)) {
      refuseBody(response);
      return;
    }
    void attempt(request, response, 1);
  }

  async function attempt(
    request: IncomingMessage,
    response: ServerResponse,
    tries: number,
  ): Promise<void> {
    let url: string;
    try {
      url = await choice.choose();
    } catch (error) {
      if (!response.destroyed) fail(response, { error, wasSent: false, log });
      return;
    }
    if (!response.destroyed) passOn(url, { request, response, tries });
  }

  function passOn(
    url: string,
    {
      request,
      response,
      tries,
    }: { request: IncomingMessage; response: ServerResponse; tries: number },
  ): void {
    const upstream = open(new URL(url), request, agents);
    const limit = setTimeout(() => {
      upstream.destroy(new Error(`no answer within ${String(options.answerTimeoutMs)} ms`));
    }, options.answerTimeoutMs);
    const stopWatching = choice.watch(url, () => {
      upstream.destroy(new Error('the controller fell silent'));
    });
    // Once there is a connection, the controller may have read the request.
    let wasSent = false;
    const sendBody = (): void => {
      wasSent = true;
      request.pipe(upstream);
    };
    upstream.once('socket', (socket) => {
      if (socket.connecting) socket.once('connect', sendBody);
      else sendBody();
    });
    const giveUp = (): void => {
      if (!response.writableFinished) upstream.destroy();
    };
    upstream.once('close', () => {
      clearTimeout(limit);
      stopWatching();
      response.off('close', giveUp);
    });
    upstream.once('response', (answer) => {
      clearTimeout(limit);
      stopWatching();
      choice.answered(url, answer.statusCode ?? 502);
      if (isLetIn(request, answer)) options.onKnown?.(request);
      passBack(request, answer, { response, streams, light });
    });
    upstream.once('error', (error) => {
      request.unpipe(upstream);
      if (response.destroyed) return;
      choice.passOver(url);
      if (!wasSent && tries < choice.count) {
        void attempt(request, response, tries + 1);
        return;
      }
      request.resume();
      fail(response, { error, wasSent, log });
    });
    response.once('close', giveUp);
  }

  return {
    handle,
    endStreams() {
      for (const stream of streams) stream.destroy();
    },
    close() {
      agents.plain.destroy();
      agents.tls.destroy();
    },
  };
}

/** Whether an answer is one that only a known caller gets. */
function isLetIn({ url = '' }: IncomingMessage, { statusCode = 502 }: IncomingMessage): boolean {
  return statusCode < 400 && /^\/(?:trpc|export)\//u.test(url);
}

/** Passes an answer back to the browser. */
function passBack(
  request: IncomingMessage,
  answer: IncomingMessage,
  { response, streams, light }: PassBackParts,
): void {
  const headers = headersToReturn(answer.headers);
  if (mayBeLight(request, answer)) {
    light.send(request, answer, { response, headers }).catch(() => {
      cutOff(response);
    });
    return;
  }
  response.writeHead(answer.statusCode ?? 502, headers);
  // The headers are sent at once: a browser then knows that its stream is connected.
  response.flushHeaders();
  if (answer.headers['content-type']?.startsWith('text/event-stream')) {
    streams.add(response);
    response.once('close', () => streams.delete(response));
  }
  // Half an answer must not look complete: when one end breaks, so does the other. The pipeline would
  // end the connection normally, so this comes before it.
  answer.once('error', () => {
    cutOff(response);
  });
  pipeline(answer, response, () => undefined);
}

interface PassBackParts {
  readonly response: ServerResponse;
  /** The streams of events that are open. */
  readonly streams: Set<ServerResponse>;
  readonly light: LightAnswers;
}

interface Agents {
  readonly plain: http.Agent;
  readonly tls: https.Agent;
}

function open(controllerUrl: URL, request: IncomingMessage, agents: Agents): http.ClientRequest {
  const isTls = controllerUrl.protocol === 'https:';
  return (isTls ? https : http).request({
    ...urlToHttpOptions(controllerUrl),
    path: pathOf(request, controllerUrl),
    agent: isTls ? agents.tls : agents.plain,
    method: request.method,
    headers: headersToSend(request.headers),
  });
}

/**
 * The path below the controller's own address, which may have one. It is passed on as it came: parsed
 * and built again, it could name another host, or leave what was asked for.
 */
function pathOf(request: IncomingMessage, controllerUrl: URL): string {
  return `${controllerUrl.pathname.replace(/\/$/u, '')}${request.url ?? '/'}`;
}

function fail(
  response: ServerResponse,
  { error, wasSent, log }: { error: unknown; wasSent: boolean; log: Logger },
): void {
  if (response.headersSent) {
    cutOff(response);
    return;
  }
  const code = wasSent ? 'request.outcome_unknown' : 'request.unreachable';
  const incidentId = answerUnreachable(response, code);
  log.warn({ err: error, incidentId, leaseholdCode: code }, 'the controller does not answer');
}

/**
 * Cuts an answer off so that no client takes the part for the whole. Its connection is reset: over
 * HTTP/1.0 an answer is complete when its connection ends, so a normal end would not show the loss.
 */
export function cutOff(response: ServerResponse): void {
  response.socket?.resetAndDestroy();
  response.destroy();
}

// Which headers of a request reach the controller, and which of its answer the browser. Headers about one
// connection stay on it. The length of a body is passed on as Node has read it, even if headers contradict
// each other: two ends that disagree about it take the bytes of one request for another one.

/** Headers about one connection, and not about the messages on it. */
const OF_THE_CONNECTION = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);

/** Headers about addresses that a browser must not set for the controller; see {@link createNoteSource}. */
const NOT_PASSED_ON = new Set(['host', 'forwarded', 'x-forwarded-host', 'x-forwarded-proto']);

/**
 * Headers that `Connection` cannot remove, though it may name others that end here: about the length
 * of the body, the caller, and the source address.
 */
const NEVER_OF_THE_CONNECTION = new Set([
  'content-length',
  'transfer-encoding',
  'content-type',
  'content-encoding',
  'host',
  'origin',
  'cookie',
  'set-cookie',
  'authorization',
  'x-leasehold-csrf',
  'x-forwarded-for',
  'user-agent',
  CALLER_HEADER,
  CONSOLE_SECRET_HEADER,
  'cache-control',
  'content-disposition',
  'location',
  'retry-after',
]);

/** Methods of requests without a body. Node would send a body with one of these without its length. */
const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

/** Whether a request comes with a body that its method has no use for. An empty one does not count. */
function hasUselessBody({ method = '', headers }: IncomingMessage): boolean {
  if (!METHODS_WITHOUT_BODY.has(method)) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}

/** The headers of a request that the controller gets. */
function headersToSend(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const { 'content-length': length, ...passed } = withoutConnection(headers, NOT_PASSED_ON);
  // A body of unknown length stays chunked, whatever the method: else its bytes could pass for a request.
  if (headers['transfer-encoding'] !== undefined) {
    return { ...passed, 'transfer-encoding': 'chunked' };
  }
  return length === undefined ? passed : { ...passed, 'content-length': length };
}

/** The headers of an answer that the browser gets. */
function headersToReturn(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return withoutConnection(headers, new Set());
}

function withoutConnection(
  headers: IncomingHttpHeaders,
  others: ReadonlySet<string>,
): OutgoingHttpHeaders {
  const named = (headers.connection ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => !NEVER_OF_THE_CONNECTION.has(name));
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !OF_THE_CONNECTION.has(name) && !others.has(name) && !named.includes(name),
    ),
  );
}

/** JSON-RPC's code of an internal error: tRPC's clients read an error only if it has a code. */
const JSON_RPC_INTERNAL = -32_603;
const JSON_RPC_INVALID = -32_600;

/** An error that the console answers itself, as the controller would. */
type OwnCode = Extract<
  ErrorCode,
  'request.unreachable' | 'request.outcome_unknown' | 'request.invalid'
>;

const OWN_ERRORS: Record<OwnCode, { message: string; trpcCode: string; jsonRpc: number }> = {
  'request.unreachable': {
    message: 'The console cannot reach the controller: nothing was sent.',
    trpcCode: 'SERVICE_UNAVAILABLE',
    jsonRpc: JSON_RPC_INTERNAL,
  },
  'request.outcome_unknown': {
    message:
      'The connection to the controller was lost before it answered. What it did is unknown.',
    trpcCode: 'SERVICE_UNAVAILABLE',
    jsonRpc: JSON_RPC_INTERNAL,
  },
  'request.invalid': {
    message: 'body: must be empty, with this method.',
    trpcCode: 'BAD_REQUEST',
    jsonRpc: JSON_RPC_INVALID,
  },
};

/** Answers in place of a controller that does not answer. @returns the incident's id, for the log. */
function answerUnreachable(
  response: ServerResponse,
  code: Exclude<OwnCode, 'request.invalid'>,
): string {
  const incidentId = randomUUID();
  answer(response, code, incidentId);
  return incidentId;
}

/** Refuses a request that has a body, and ends its connection: what is left on it is not read. */
function refuseBody(response: ServerResponse): void {
  response.setHeader('connection', 'close');
  answer(response, 'request.invalid', null);
}

function answer(response: ServerResponse, code: OwnCode, incidentId: string | null): void {
  const { message, trpcCode, jsonRpc } = OWN_ERRORS[code];
  const { http, retryable } = ERROR_CODES[code];
  const data = {
    code: trpcCode,
    httpStatus: http,
    leaseholdCode: code,
    retryable,
    incidentId,
    // A page tells by it what a controller has answered from what it has not (`isUnanswered`).
    details: { by: 'console' },
  };
  response.writeHead(http, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ error: { message, code: jsonRpc, data } }));
}

/** Writes the source of a request into its headers. See {@link createNoteSource}. */
type NoteSource = (request: IncomingMessage) => void;

/**
 * Tells the controller where a request comes from, with the secret of the console: any program on this machine could
 * claim the same. What the caller itself says about this is dropped. `x-forwarded-for` is for a controller of the
 * version before: the address of the socket, after what a trusted proxy has said.
 * @param consoleSecret null: the controller takes the console for the caller.
 */
export function createNoteSource({
  trustedProxies,
  consoleSecret,
}: {
  readonly trustedProxies: readonly string[];
  readonly consoleSecret: string | null;
}): NoteSource {
  const sources = createSources({ trustedProxies });
  return (request) => {
    const source = sources.of(request);
    const said = sources.isFromProxy(request) ? request.headers['x-forwarded-for'] : undefined;
    const { remoteAddress: peer } = request.socket;
    for (const name of [CALLER_HEADER, CONSOLE_SECRET_HEADER, 'x-forwarded-for']) {
      Reflect.deleteProperty(request.headers, name);
    }
    if (source === null || peer === undefined) return;
    request.headers['x-forwarded-for'] = [...(said === undefined ? [] : [said].flat()), peer].join(
      ', ',
    );
    if (consoleSecret === null) return;
    request.headers[CALLER_HEADER] = source;
    request.headers[CONSOLE_SECRET_HEADER] = consoleSecret;
  };
}
