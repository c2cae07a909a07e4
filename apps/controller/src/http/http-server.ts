import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { assertRole, assertUnlimited } from '@leasehold/api';
import { readOpenApi } from '@leasehold/api/openapi';
import { LeaseError, type Clock } from '@leasehold/keys-core';
import { sharedRead } from '@leasehold/keys-core/stats';
import { guardConnections, type ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { networkOf } from '@leasehold/service-kit/network';
import { fastify, type FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { mountExport, type ExportDeps } from '../export/export-routes.ts';
import type { SignInDeps } from '../sign-in/sign-in-parts.ts';
import { mountSignIn } from '../sign-in/sign-in-routes.ts';
import {
  addressOf,
  callerOf,
  countAnonymous,
  createFailureLog,
  hasGoodToken,
  installErrorReplies,
  isShut,
  replyWithError,
  requireCaller,
  type ContextDeps,
} from './request-context.ts';
import { createRequestGate } from './request-gate.ts';
import { mountTrpc, type TrpcRoutesDeps } from './trpc-routes.ts';

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

/** How long one answer of `/readyz` serves everybody: anyone may ask, and a check queries the database. */
const READY_KEPT_MS = 250;

export interface HealthRoutesDeps extends ContextDeps {
  /** Resolves when the controller can do its work; else throws. */
  readonly checkReady: () => Promise<void>;
  readonly guard: ConnectionGuard;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly metrics: Registry;
}

/**
 * `/healthz`: the process answers. `/readyz`: it can do its work. Both are open. `/metrics` is for
 * viewers that are not limited to namespaces: its labels name actions of all.
 */
export async function mountHealth(server: FastifyInstance, deps: HealthRoutesDeps): Promise<void> {
  const checkReady = sharedRead(deps.clock, deps.checkReady, READY_KEPT_MS);
  server.get('/healthz', () => ({ status: 'ok' }));
  server.get('/readyz', async () => {
    try {
      await checkReady();
    } catch (error) {
      // Whatever the error of the database is, a controller without it is not ready.
      if (error instanceof LeaseError) throw error;
      throw new LeaseError('store.unavailable', undefined, { cause: error });
    }
    return { status: 'ready' };
  });
  await server.register((scope, _options, done) => {
    requireCaller(scope, deps);
    scope.get('/metrics', async (request, reply) => {
      const { access, use } = callerOf(request.raw);
      assertRole(access, 'viewer');
      assertUnlimited(access);
      const text = await use.read(() => deps.metrics.metrics());
      return reply.type(deps.metrics.contentType).send(text);
    });
    done();
  });
}

/**
 * `/openapi.json`: what this controller can be asked. It is open, because it says nothing about what is
 * held here, and tools that read it have no token. It is counted by address.
 */
function mountOpenApi(server: FastifyInstance): void {
  server.get('/openapi.json', async (_request, reply) => {
    return reply.type('application/json').send(await readOpenApi());
  });
}
