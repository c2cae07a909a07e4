import { LeaseError } from '@leasehold/keys-core';
import { guardConnections, type ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { networkOf } from '@leasehold/service-kit/network';
import { fastify, type FastifyInstance } from 'fastify';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { mountExport, type ExportDeps } from '../export/export-routes.ts';
import { createFailureLog, installErrorReplies, replyWithError } from './error-replies.ts';
import {
  addressOf,
  countAnonymous,
  hasGoodToken,
  isShut,
  type ContextDeps,
} from './request-context.ts';
import { createRequestGate } from './request-gate.ts';
import type { SignInDeps } from '../sign-in/sign-in-parts.ts';
import { mountSignIn } from '../sign-in/sign-in-routes.ts';
import { mountHealth, type HealthRoutesDeps } from './routes/health-routes.ts';
import { mountOpenApi } from './routes/openapi-route.ts';
import { mountTrpc, type TrpcRoutesDeps } from './routes/trpc-routes.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route counts its requests by their callers: any other is counted by address. */
    readonly countsItself?: boolean;
  }
}

/** Batched calls name every procedure in the path. */
const PARAM_LENGTH_MAX = 16_384;
/** Of what is no call. */
const BODY_BYTES_MAX = 16 * 1_024;
/** For receiving a request, in milliseconds: its answer may take longer. */
const SOCKET_TIMES = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  /** Between requests: longer than the proxies in front keep a connection. */
  keepAliveTimeout: 72_000,
  /** How often connections are looked at that exceed these times. */
  connectionsCheckingInterval: 1_000,
};

/** The HTTP server of a controller, not yet listening. */
export async function createHttpServer({
  anonymousConnectionsMax,
  ...deps
}: Omit<TrpcRoutesDeps & HealthRoutesDeps & SignInDeps & ExportDeps, 'guard' | 'failures'> & {
  /** Connections, and requests through proxies, that an address may have while their callers are not known yet. */
  readonly anonymousConnectionsMax: number;
}): Promise<FastifyInstance> {
  const gate = createRequestGate({
    nowMs: deps.nowMs,
    // The owner of an IPv6 network would have as many turns as it has addresses.
    addressOf: (request) => networkOf(addressOf(deps, request)),
    hasGoodToken: (request) => hasGoodToken(deps, request),
    isShut: (request) => isShut(deps, request),
    nextTurn: (work) => setImmediate(work),
  });
  const server = fastify({
    serverFactory: (handler) => {
      const made = createServer(SOCKET_TIMES, gate.through(handler));
      gate.watch(made);
      return made;
    },
    bodyLimit: BODY_BYTES_MAX,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    genReqId: requestIdOf,
    forceCloseConnections: 'idle',
    // Fastify's own answer while it closes has no code; see `refuseWhileClosing`.
    return503OnClosing: false,
  });
  const failures = createFailureLog(deps.log);
  const guard = guardConnections(server.server, {
    perAddressMax: anonymousConnectionsMax,
    sources: deps.sources,
  });
  const parts = { ...deps, failures, guard };
  nameRequests(server);
  forbidStorage(server);
  refuseWhileClosing(server);
  countRequests(server, guard);
  countStrangers(server, deps);
  installErrorReplies(server, failures);
  await mountTrpc(server, parts);
  await mountSignIn(server, parts);
  await mountExport(server, parts);
  await mountHealth(server, parts);
  mountOpenApi(server);
  return server;
}

/** What callers may name a request: it is written to the log as it is. */
const GIVEN_ID = /^[\w.-]{1,64}$/u;

/** The id of a request, which all lines of the log about it have: its caller's, or a new one. */
function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GIVEN_ID.test(given) ? given : randomUUID();
}

/** Answers with the id of the request. */
function nameRequests(server: FastifyInstance): void {
  server.addHook('onRequest', (request, reply, done) => {
    void reply.header('x-request-id', request.id);
    done();
  });
}

/** What is answered is for one caller, now: nothing on the way may keep it. */
function forbidStorage(server: FastifyInstance): void {
  server.addHook('onSend', (_request, reply, payload, done) => {
    void reply.header('cache-control', 'no-store');
    // The headers of a stream of tRPC are written over those of the reply.
    if (payload instanceof Response && payload.headers.has('cache-control')) {
      payload.headers.set('cache-control', 'no-store, no-transform');
    }
    done(null, payload);
  });
}

/** Counts requests of unknown callers, see `connection-guard.ts`. */
function countRequests(server: FastifyInstance, guard: ConnectionGuard): void {
  server.addHook('onRequest', (request, reply, done) => {
    guard.begin(request.raw, reply.raw);
    done();
  });
}

/** Counts each request by its address, except on routes that count their callers. */
function countStrangers(server: FastifyInstance, deps: ContextDeps): void {
  server.addHook('onRequest', async ({ raw, routeOptions }) => {
    if (routeOptions.config.countsItself !== true) await countAnonymous(deps, raw);
  });
}

/** Refuses requests on connections that are still open, also those that would open a WebSocket. */
function refuseWhileClosing(server: FastifyInstance): void {
  let isClosing = false;
  server.addHook('preClose', (done) => {
    isClosing = true;
    done();
  });
  server.addHook('onRequest', (request, reply, done) => {
    if (!isClosing) {
      done();
      return;
    }
    // The server no longer owns the socket of an upgrade, and would not close it.
    reply.raw.once('finish', () => request.raw.socket.destroySoon());
    replyWithError(reply, new LeaseError('controller.stopping'));
  });
}
