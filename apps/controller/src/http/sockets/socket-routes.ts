/** The API over WebSocket. See `call-scheduler.ts` and `socket-face.ts`. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import fastifyWebsocket from '@fastify/websocket';
import { appRouter, type ApiContext, type CallerConnection, describeError } from '@leasehold/api';
import { LeaseError, LIMITS, type Clock, type Role } from '@leasehold/keys-core';
import { jsonOf } from '@leasehold/service-kit';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { getWSConnectionHandler } from '@trpc/server/adapters/ws';
import type { FastifyInstance } from 'fastify';
import type { WebSocket, RawData } from 'ws';
import { type StreamPacer, tooManyLookUps } from '../../fair-use/pacing.ts';
import {
  type CallScheduler,
  createCallScheduler,
  createGrantingGate,
} from '../calls/call-scheduler.ts';
import type { WireCall } from '../calls/inbox.ts';
import {
  bearerOf,
  callerOfToken,
  contextOf,
  countByAddress,
  type ContextDeps,
  type FailureLog,
  type Caller,
} from '../request-context.ts';
import { followAccess, type FollowedConnections } from './open-connections.ts';
import { UNREAD_POLL_MS } from './slow-readers.ts';
import {
  callEncoder,
  endSocket,
  keepSocket,
  pongsOneByOne,
  SocketFace,
  TOKEN_ENDED,
} from './socket-face.ts';

const SERVICE_RESTART = 1_012;
const TOO_LARGE = 1_009;
/** A client of another language may send a large message in parts, of some KiB each. */
const FRAGMENTS_MAX = 1_024;
/** Queries are small: a viewer has no use for a larger message. */
const VIEWER_MESSAGE_BYTES_MAX = 256 * 1_024;
/** This much unread is normal; with more of it, a subscription waits. */
const UNREAD_BYTES_EASY = 256 * 1_024;
/** What tRPC waits for before the first call; the caller is known by then. */
const CONNECTION_PARAMS = { method: 'connectionParams', data: {} };

export interface SocketRoutesDeps extends ContextDeps, FollowedConnections {
  readonly failures: FailureLog;
  /** Measures how long a peer was silent. */
  readonly clock: Clock;
  readonly pacer: StreamPacer;
  readonly guard: ConnectionGuard;
  /** Time for the connection parameters to arrive. */
  readonly tokenMsMax: number;
  /** A monotonic reading in milliseconds that is cheap enough for each call. */
  readonly nowMs: () => number;
  /** Whether so many grants wait that another one would only wait longer. */
  readonly isPressed: () => boolean;
  /** Called for each call that is refused because of that, for metrics. */
  readonly onOverload: (role: Role) => void;
}

type Connect = (face: SocketFace, request: IncomingMessage) => void;

/** Accepts WebSockets at `prefix`; {@link acceptSockets} comes first. */
export function mountSockets(
  server: FastifyInstance,
  prefix: string,
  deps: SocketRoutesDeps,
): CallScheduler {
  const gate = createGrantingGate({
    nowMs: deps.nowMs,
    isPressed: deps.isPressed,
    after: (ms, look) => (ms === 0 ? setImmediate(look) : setTimeout(look, ms).unref()),
    onRefusal: ({ use }) => deps.onOverload(use.role),
  });
  const scheduler = createCallScheduler(deps.nowMs, gate);
  const contexts = new WeakMap<object, ApiContext>();
  const connect = getWSConnectionHandler({
    wss: server.websocketServer,
    router: appRouter,
    experimental_encoder: callEncoder,
    onError: ({ error, path, ctx }) =>
      deps.failures.note(error, { path, requestId: ctx?.requestId }),
    createContext: ({ res }) => {
      const context = contexts.get(res);
      if (context === undefined) throw new LeaseError('auth.required');
      return context;
    },
  }) as unknown as Connect;
  server.route({
    method: 'GET',
    url: prefix,
    // Counted before the upgrade, because a WebSocket sends its token only once it is open.
    config: { countsItself: true },
    preValidation: ({ raw }) => countByAddress(deps, raw, 'newSecret'),
    handler: () => {
      throw new LeaseError('request.not_found');
    },
    wsHandler: (socket, { raw: request, id: requestId }) => {
      // The close that follows shows what happened.
      socket.on('error', () => undefined);
      welcome(deps, socket, request)
        .then((opened) => {
          const on = { socket, request, requestId, scheduler, contexts, connect };
          if (opened.outcome === 'known') serve(deps, on, opened);
          else refuse(deps, on, opened);
        })
        .catch((error: unknown) => {
          deps.failures.note(error as Error, { path: 'websocket', requestId });
          socket.terminate();
        });
    },
  });
  return scheduler;
}

/** A token may come in the header of the upgrade, or as the first message. */
async function welcome(
  deps: SocketRoutesDeps,
  socket: WebSocket,
  request: IncomingMessage,
): Promise<Opened> {
  const bearer = bearerOf(request);
  if (bearer === undefined) return admit(deps, socket, request);
  socket.pause();
  try {
    if (!deps.guard.claimed(request)) throw tooManyLookUps();
    const caller = await callerOfToken(deps, request, bearer);
    return { outcome: 'known', caller, early: [] };
  } catch (error) {
    watchStranger(socket, request);
    return { outcome: 'refused', error, early: [] };
  }
}

function refuse(
  deps: SocketRoutesDeps,
  { socket, requestId }: On,
  refused: Extract<Opened, { outcome: 'refused' }>,
): void {
  const { error } = refused;
  if (error instanceof Error) deps.failures.note(error, { path: 'websocket', requestId }, 'warn');
  turnAway(socket, refused);
}

interface On {
  readonly socket: WebSocket;
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly scheduler: CallScheduler;
  readonly contexts: WeakMap<object, ApiContext>;
  readonly connect: Connect;
}

function serve(
  deps: SocketRoutesDeps,
  { socket, request, requestId, scheduler, contexts, connect }: On,
  { caller, early }: Extract<Opened, { outcome: 'known' }>,
): void {
  const { access, use } = caller;
  if (socket.readyState !== socket.OPEN) return;
  let closeConnection: () => void;
  try {
    closeConnection = use.openConnection();
  } catch (error) {
    turnAway(socket, { error, early });
    return;
  }
  deps.guard.known(request);
  const face = new SocketFace(socket, request.socket, use);
  const kept = keepSocket(socket, deps.clock);
  const gone = new AbortController();
  socket.once('close', () => gone.abort());
  const life: CallerConnection = {
    ...kept,
    signal: gone.signal,
    whenRead: whenRead(deps.pacer, face),
  };
  const ctx = { ...contextOf(deps, request, { ...caller, life }), requestId };
  contexts.set(face, ctx);
  face.serveDirectly({
    ctx,
    onError: (error, path) => deps.failures.note(error, { path, requestId }),
  });
  followAccess(deps, access, socket);
  connect(face, request);
  // The adapter takes the first message for the connection parameters, if there are to be any.
  if (request.url?.includes('connectionParams=1') === true) {
    face.begin(CONNECTION_PARAMS);
  }
  const { receive, close } = scheduler.add(face);
  socket.once('close', () => {
    close();
    closeConnection();
  });
  const answerPing = pongsOneByOne(socket);
  const take = (text: string): void => {
    if (text === 'PING') answerPing();
    else if (access.role === 'viewer' && text.length > VIEWER_MESSAGE_BYTES_MAX) {
      endSocket(socket, TOO_LARGE, 'the message is too large');
    } else if (text !== 'PONG') receive(text);
  };
  for (const text of early) take(text);
  socket.on('message', (data) => take(textOf(data)));
  socket.resume();
}

/** Resolves when a stream may send more: in its turn, and once most of what it sent was read. */
function whenRead(pacer: StreamPacer, face: SocketFace): () => Promise<void> {
  const turn = pacer.open(face.use.principal);
  return async () => {
    await turn();
    while (
      (face.bufferedAmount > UNREAD_BYTES_EASY || face.use.isBehind()) &&
      face.readyState === 1
    ) {
      await pause(UNREAD_POLL_MS);
    }
  };
}

/** Lets WebSockets in; connected clients are told when the server stops. */
export async function acceptSockets(
  server: FastifyInstance,
  endStreams: () => void,
): Promise<void> {
  await server.register(fastifyWebsocket, {
    options: {
      maxPayload: LIMITS.bodyBytesMax,
      maxFragments: FRAGMENTS_MAX,
      perMessageDeflate: false,
    },
    preClose: (done) => {
      for (const socket of server.websocketServer.clients) {
        endSocket(socket, SERVICE_RESTART, 'restarting');
      }
      endStreams();
      server.websocketServer.close(() => done());
    },
  });
}

// What a WebSocket may do before it is known who has opened it: send one small message with a token, soon. Anything
// else ends the connection.

const TOKEN_MESSAGE_BYTES_MAX = 4 * 1_024;
/**
 * What else may have arrived by then: clients send calls right behind their token. One
 * read of a socket brings 64 KiB.
 */
const EARLY_BYTES_MAX = 192 * 1_024;

/** Who opened a connection, or why it is refused; with what was already sent behind the token. */
export type Opened =
  | { readonly outcome: 'known'; readonly caller: Caller; readonly early: readonly string[] }
  | { readonly outcome: 'refused'; readonly error: unknown; readonly early: readonly string[] };

/** Waits until it is known who has opened a WebSocket. */
export function admit(
  deps: Pick<SocketRoutesDeps, keyof ContextDeps | 'guard' | 'tokenMsMax'>,
  socket: WebSocket,
  request: IncomingMessage,
): Promise<Opened> {
  return new Promise((resolve) => {
    const endWatch = watchStranger(socket, request, TOKEN_MESSAGE_BYTES_MAX);
    const early: string[] = [];
    let isTokenSent = false;
    const end = (): void => {
      clearTimeout(timer);
      socket.off('message', receive).off('close', closed);
      endWatch();
    };
    // What arrives before the connection ends is kept, within bounds: the first call is answered.
    const refuse = (error: unknown): void => {
      clearTimeout(timer);
      resolve({ outcome: 'refused', error, early });
    };
    const closed = (): void => refuse(new LeaseError('auth.required'));
    const receive = (data: RawData): void => {
      const text = textOf(data);
      if (isTokenSent) {
        early.push(text);
        return;
      }
      isTokenSent = true;
      // What follows the token stays with the sender until the token has been looked up.
      socket.pause();
      const secret = tokenIn(text);
      if (secret === undefined) {
        refuse(new LeaseError('auth.required'));
        return;
      }
      if (!deps.guard.claimed(request)) {
        refuse(tooManyLookUps());
        return;
      }
      callerOfToken(deps, request, secret).then((caller) => {
        end();
        resolve({ outcome: 'known', caller, early });
      }, refuse);
    };
    const timer = setTimeout(() => {
      if (!isTokenSent) refuse(new LeaseError('auth.required', 'No token was sent.'));
    }, deps.tokenMsMax);
    timer.unref();
    socket.on('message', receive).once('close', closed);
  });
}

/**
 * Ends a WebSocket that receives what nobody sends before its caller is known. A message that has not ended
 * yet is not delivered: only the bytes of the network show its parts.
 * @param firstBytesMax what the first message may have.
 * @returns a function that ends the watch.
 */
function watchStranger(
  socket: WebSocket,
  { socket: network }: Pick<IncomingMessage, 'socket'>,
  firstBytesMax = EARLY_BYTES_MAX,
): () => void {
  const frames = watchEarlyFrames({ first: firstBytesMax, all: EARLY_BYTES_MAX });
  const look = (chunk: Buffer): void => {
    if (frames(chunk) === undefined) return;
    network.off('data', look);
    socket.terminate();
    // `ws` is given this piece too, and finds no frame in it.
    chunk.fill(0xff);
  };
  // Before `ws`, which would keep the parts.
  network.prependListener('data', look);
  return () => {
    network.off('data', look);
  };
}

/** The token in the connection parameters; undefined for any other message. */
function tokenIn(text: string): string | undefined {
  if (text.length > TOKEN_MESSAGE_BYTES_MAX) return undefined;
  const message = jsonOf(text) as { method?: unknown; data?: { token?: unknown } | null } | null;
  const token = message?.method === 'connectionParams' ? message.data?.token : undefined;
  return typeof token === 'string' ? token : undefined;
}

/** A message as text. `ws` gives whole messages as one buffer. */
export function textOf(data: RawData): string {
  return Buffer.isBuffer(data) ? data.toString('utf8') : '';
}

const POLICY_VIOLATION = 1_008;
/** Time for the first call behind the token to arrive, so that it is told why. */
const FIRST_CALL_MS_MAX = 1_000;
const FIRST_CALL_BYTES_MAX = 16 * 1_024;

/**
 * Ends a WebSocket of a caller that is not let in, with one answer: to its first call, or to the
 * connection where that is a batch, is large, or does not come.
 */
function turnAway(
  socket: WebSocket,
  { error, early }: { readonly error: unknown; readonly early: readonly string[] },
): void {
  if (socket.readyState === socket.CLOSED) return;
  const { leaseholdCode } = describeError(error);
  const isUnknown = leaseholdCode.startsWith('auth.');
  let isAnswered = false;
  const answer = (message?: string): void => {
    if (isAnswered) return;
    isAnswered = true;
    clearTimeout(timer);
    if (socket.readyState === socket.OPEN) {
      socket.send(SocketFace.refusalOf(message === undefined ? null : idIn(message), error));
    }
    endSocket(socket, isUnknown ? TOKEN_ENDED : POLICY_VIOLATION, leaseholdCode);
  };
  const timer = setTimeout(answer, FIRST_CALL_MS_MAX);
  timer.unref();
  const [first] = early;
  if (first !== undefined) {
    answer(first);
    return;
  }
  socket.once('message', (data: RawData) => answer(textOf(data)));
  socket.resume();
}

function idIn(text: string): unknown {
  const call = text.length > FIRST_CALL_BYTES_MAX ? undefined : jsonOf(text);
  return (call as WireCall | null | undefined)?.id ?? null;
}

// Looks at the frames that a WebSocket receives before it is known who has opened it. A client sends its
// token and its first calls as whole texts, each in one frame: what is in parts, compressed, binary or large is
// not read at all. In parts, a message of a few bytes each would take a hundred times its size in memory.

/** RFC 6455, section 5.2. */
const FINAL = 0x80;
const RESERVED = 0x70;
const OPCODE = 0x0f;
const TEXT = 1;
const CONTROL = 0x08;
const LENGTH = 0x7f;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;
const MASK_BYTES = 4;
/** Each frame costs some microseconds, however small it is. */
const FRAMES_MAX = 1_000;

/** Takes what arrives, in pieces of any size. @returns why the connection ends; undefined if it goes on. */
type EarlyFrames = (chunk: Buffer) => 'not whole' | 'too large' | undefined;

/** @param bytesMax what the first text may have, and all that arrives together. */
export function watchEarlyFrames(bytesMax: {
  readonly first: number;
  readonly all: number;
}): EarlyFrames {
  let receivedBytes = 0;
  let frameCount = 0;
  let isFirst = true;
  /** Of the present frame that are still to come, behind its header. */
  let payloadLeft = 0;
  let header = Buffer.alloc(0);
  return (chunk) => {
    receivedBytes += chunk.length;
    if (receivedBytes > bytesMax.all) return 'too large';
    let at = Math.min(payloadLeft, chunk.length);
    payloadLeft -= at;
    while (at < chunk.length) {
      header = Buffer.concat([header, chunk.subarray(at, at + 1)]);
      at += 1;
      if (!isWhole(header)) return 'not whole';
      const payloadBytes = payloadBytesOf(header);
      if (payloadBytes === undefined) continue;
      frameCount += 1;
      if (isFirst && payloadBytes > bytesMax.first) return 'too large';
      if (frameCount > FRAMES_MAX) return 'too large';
      if (!isControl(header)) isFirst = false;
      header = Buffer.alloc(0);
      payloadLeft = payloadBytes;
      const taken = Math.min(payloadLeft, chunk.length - at);
      payloadLeft -= taken;
      at += taken;
    }
    return undefined;
  };
}

/** Whether a frame is a whole text, or a control frame, of which the protocol has only small and whole ones. */
function isWhole(header: Buffer): boolean {
  const first = header[0] ?? 0;
  const isOne = (first & FINAL) !== 0 && (first & RESERVED) === 0;
  return isOne && ((first & OPCODE) === TEXT || isControl(header));
}

function isControl(header: Buffer): boolean {
  return ((header[0] ?? 0) & CONTROL) !== 0;
}

/** The payload of the frame with this header; undefined while the header is not complete. */
function payloadBytesOf(header: Buffer): number | undefined {
  if (header.length < 2) return undefined;
  const length = (header[1] ?? 0) & LENGTH;
  const more = length === LENGTH_IN_2_BYTES ? 2 : length === LENGTH_IN_8_BYTES ? 8 : 0;
  // Every frame of a client is masked: `ws` refuses any other.
  if (header.length < 2 + more + MASK_BYTES) return undefined;
  if (more === 0) return length;
  return more === 2 ? header.readUInt16BE(2) : Number(header.readBigUInt64BE(2));
}
