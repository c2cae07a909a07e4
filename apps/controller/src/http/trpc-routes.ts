import { appRouter, describeError, type ApiContext } from '@leasehold/api';
import { LIMITS, LeaseError, type Clock } from '@leasehold/keys-core';
import fastifyWebsocket from '@fastify/websocket';
import { fastifyTRPCPlugin, type FastifyTRPCPluginOptions } from '@trpc/server/adapters/fastify';
import { getWSConnectionHandler } from '@trpc/server/adapters/ws';
import type { FastifyInstance } from 'fastify';
import type { ServerResponse } from 'node:http';
import type { Logger } from '@leasehold/service-kit';
import type { WebSocket } from 'ws';
import type { OpenConnections } from '../access/open-connections.ts';
import { replyWithError } from './error-replies.ts';
import type { RateLimit } from './rate-limit.ts';
import { countRequest, httpCaller, requestContext, type ContextDeps } from './request-context.ts';
import { endSocket, keepSocket, type KeptSocket } from './socket-keeper.ts';

const PREFIX = '/trpc';
/** Calls that may travel in one message. */
const BATCH_SIZE_MAX = 1_000;
/** Of the private range: this connection has no token in force, or no longer. */
const TOKEN_ENDED = 4_401;
/** For the answers to the calls that came with a token that is not in force. */
const UNAUTHENTICATED_MS = 1_000;
/** For the connection parameters to come and their token to be looked up. */
const TOKEN_MS_MAX = 30_000;
const SERVICE_RESTART = 1_012;
/** A call that is answered sooner is not worth following. */
const FOLLOWED_AFTER_MS = 1_000;

export interface TrpcRoutesDeps extends ContextDeps {
  readonly connections: OpenConnections;
  /** For calls over HTTP and for opening a WebSocket; an open one is bounded by its keeper. */
  readonly rateLimit: RateLimit;
  readonly log: Logger;
  /** For how long a peer was silent. */
  readonly clock: Clock;
}

/** A socket that is not ours to keep: nothing is known of its peer. */
const NOT_KEPT: KeptSocket = {
  isAlive: () => false,
  watch: () => () => undefined,
  whenRead: () => Promise.resolve(),
};

/** Mounts the API at `/trpc`, over HTTP and WebSocket. */
export async function mountTrpc(server: FastifyInstance, deps: TrpcRoutesDeps): Promise<void> {
  const streams = new Set<ServerResponse>();
  await acceptSockets(server, streams);
  const onError = ({ error, path }: { error: Error; path?: string | undefined }): void => {
    logFailure(deps.log, error, path);
  };
  const admitted = new WeakSet<WebSocket>();
  const kept = new WeakMap<WebSocket, KeptSocket>();
  const connect = getWSConnectionHandler({
    wss: server.websocketServer,
    router: appRouter,
    maxBatchSize: BATCH_SIZE_MAX,
    onError,
    createContext: async ({ req, res, info }) => {
      const context = await requestContext(deps, req, {
        token: info.connectionParams?.['token'],
        isCookieTaken: false,
        life: { ...(kept.get(res) ?? NOT_KEPT), signal: info.signal },
      });
      if (context.access === undefined) {
        endLater(res, UNAUTHENTICATED_MS, 'a token in force is needed');
      } else {
        followAccess(deps.connections, context, res);
      }
      admitted.add(res);
      return context;
    },
  });
  server.route({
    method: 'GET',
    url: PREFIX,
    // Before the upgrade: a WebSocket brings its token only once it is open.
    preValidation: (request, _reply, done) => {
      const isRefused = !deps.rateLimit.mayTry(deps.sourceOf(request.raw) ?? '');
      done(isRefused ? new LeaseError('request.rate_limited') : undefined);
    },
    handler: (_request, reply) => replyWithError(reply, new LeaseError('request.not_found')),
    wsHandler: (socket, request) => {
      kept.set(socket, keepSocket(socket, deps.clock));
      endLater(socket, TOKEN_MS_MAX, 'no token came', () => !admitted.has(socket));
      connect(socket, request.raw);
    },
  });
  const trpcOptions: FastifyTRPCPluginOptions<typeof appRouter>['trpcOptions'] = {
    router: appRouter,
    maxBatchSize: BATCH_SIZE_MAX,
    onError,
    createContext: async ({ req, res, info }) => {
      countRequest(deps, req.raw);
      const context = await requestContext(deps, req.raw, {
        isCookieTaken: true,
        life: httpCaller(req.raw, info.signal),
      });
      const isStream = info.calls.some((call) => call.procedure?._def.type === 'subscription');
      // A subscription over HTTP lives as long as a connection does.
      if (isStream) followAccess(deps.connections, context, res.raw);
      else followLater(deps.connections, context, res.raw);
      if (isStream) {
        streams.add(res.raw);
        res.raw.once('close', () => streams.delete(res.raw));
      }
      return context;
    },
    // The registry names the status, also where tRPC has no code of its own for it.
    responseMeta: ({ errors, info }) => {
      const [error] = errors;
      if (error === undefined || info?.isBatchCall === true) return {};
      return { status: describeError(error).httpStatus };
    },
  };
  await server.register(fastifyTRPCPlugin, { prefix: PREFIX, trpcOptions });
}

/** Lets WebSockets in; who is connected is told when the server stops. */
async function acceptSockets(
  server: FastifyInstance,
  streams: ReadonlySet<ServerResponse>,
): Promise<void> {
  await server.register(fastifyWebsocket, {
    options: { maxPayload: LIMITS.bodyBytesMax, perMessageDeflate: false },
    preClose: (done) => {
      for (const socket of server.websocketServer.clients) {
        endSocket(socket, SERVICE_RESTART, 'restarting');
      }
      // Cut off rather than ended: who follows something comes back and goes on where it was.
      for (const stream of streams) stream.destroy();
      server.websocketServer.close(() => {
        done();
      });
    },
  });
}

/** Ends a socket that nobody vouches for, in a while. */
function endLater(
  socket: WebSocket,
  afterMs: number,
  reason: string,
  isDue: () => boolean = () => true,
): void {
  const timer = setTimeout(() => {
    if (isDue()) endSocket(socket, TOKEN_ENDED, reason);
  }, afterMs);
  timer.unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}

/** Ends a connection when its token or session does, or its person's role is another. */
function followAccess(
  connections: OpenConnections,
  context: ApiContext,
  connection: WebSocket | { destroy(): unknown; once(event: 'close', fn: () => void): unknown },
): void {
  // The secret of a pair of datacenters is in force for as long as this process is.
  if (context.access === undefined || context.access.role === 'peer') return;
  const forget = connections.add(context.access, () => {
    if ('terminate' in connection) {
      endSocket(connection, TOKEN_ENDED, 'token is no longer in force');
    } else connection.destroy();
  });
  connection.once('close', forget);
}

/** A call that waits, such as in line for a lease, waits no longer than its caller may. */
function followLater(
  connections: OpenConnections,
  context: ApiContext,
  response: ServerResponse,
): void {
  const timer = setTimeout(() => {
    followAccess(connections, context, response);
  }, FOLLOWED_AFTER_MS);
  timer.unref();
  response.once('close', () => {
    clearTimeout(timer);
  });
}

/** Failures of ours are logged with the incident id that the caller was told; refusals are not. */
function logFailure(log: Logger, error: Error, path: string | undefined): void {
  const { incidentId, leaseholdCode } = describeError(error);
  if (incidentId === null) log.debug({ path, leaseholdCode }, 'call refused');
  else log.error({ incidentId, path, leaseholdCode, err: error.cause ?? error }, 'call failed');
}
