/** The API over WebSocket. See `socket-door.ts`, `call-scheduler.ts` and `socket-face.ts`. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import fastifyWebsocket from '@fastify/websocket';
import { appRouter, type ApiContext, type CallerConnection } from '@leasehold/api';
import { LeaseError, LIMITS, type Clock, type Role } from '@leasehold/keys-core';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { getWSConnectionHandler } from '@trpc/server/adapters/ws';
import type { FastifyInstance } from 'fastify';
import type { WebSocket } from 'ws';
import { type StreamPacer, tooManyLookUps } from '../../fair-use/pacing.ts';
import {
  type CallScheduler,
  createCallScheduler,
  createGrantingGate,
} from '../calls/call-scheduler.ts';
import {
  bearerOf,
  callerOfToken,
  contextOf,
  countByAddress,
  type ContextDeps,
  type FailureLog,
} from '../request-context.ts';
import { followAccess, type FollowedConnections } from './open-connections.ts';
import { UNREAD_POLL_MS } from './slow-readers.ts';
import { admit, textOf, turnAway, watchStranger, type Opened } from './socket-door.ts';
import { callEncoder, endSocket, keepSocket, SocketFace } from './socket-face.ts';

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
  const take = (text: string): void => {
    if (text === 'PING') socket.send('PONG');
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
