import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Transform } from 'node:stream';
import {
  appRouter,
  assertBound,
  assertMayCallOneOf,
  assertRole,
  assertUnlimited,
  createTurns,
  describeError,
  isGrantingCall,
  isUrgentCall,
  messageBound,
  type MessageBound,
} from '@leasehold/api';
import { readOpenApi } from '@leasehold/api/openapi';
import { type Clock, LeaseError, LIMITS } from '@leasehold/keys-core';
import { sharedRead } from '@leasehold/keys-core/stats';
import { boundAnswers, closePipelining } from '@leasehold/service-kit/answers-under-way';
import { type ConnectionGuard, guardConnections } from '@leasehold/service-kit/connection-guard';
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import { networkOf } from '@leasehold/service-kit/network';
import { fastifyTRPCPlugin, type FastifyTRPCPluginOptions } from '@trpc/server/adapters/fastify';
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import type { PrincipalUse } from '../fair-use/fair-use.ts';
import { overloaded } from '../fair-use/pacing.ts';
import type { SignInDeps } from '../sign-in/sign-in-parts.ts';
import { mountSignIn } from '../sign-in/sign-in-routes.ts';
import { LARGE_BYTES } from './calls/inbox.ts';
import { type ExportDeps, mountExport } from './export-routes.ts';
import {
  addressOf,
  callerOf,
  type ContextDeps,
  contextOf,
  countAnonymous,
  createFailureLog,
  hasBody,
  hasGoodToken,
  httpCaller,
  installErrorReplies,
  isShut,
  pathsOf,
  peerOf,
  replyToUnroutable,
  replyWithError,
  requireCaller,
  retryHeaders,
  traceOf,
  watchStrangers,
} from './request-context.ts';
import { followAccess, followLater } from './sockets/open-connections.ts';
import { whenTaken } from './sockets/slow-readers.ts';
import { acceptSockets, mountSockets, type SocketRoutesDeps } from './sockets/socket-routes.ts';

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

/** How long a caller may take to send what it has begun, in milliseconds: an answer may take longer. */
export interface SendingTimes {
  /** Of a request, as it comes. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How often connections are looked at that exceed these times. */
  readonly connectionsCheckingInterval: number;
  /** From a WebSocket's opening to its token. */
  readonly tokenMsMax: number;
}

const SENDING_TIMES: SendingTimes = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 1_000,
  tokenMsMax: 5_000,
};
/** Between requests: longer than the proxies in front keep a connection. */
const KEEP_ALIVE_MS = 72_000;

/** The HTTP server of a controller, not yet listening. */
export async function createHttpServer({
  anonymousConnectionsMax,
  sendingTimes: { tokenMsMax, ...requestTimes } = SENDING_TIMES,
  ...deps
}: Omit<
  SocketRoutesDeps & HealthRoutesDeps & SignInDeps & ExportDeps,
  'guard' | 'failures' | 'tokenMsMax'
> & {
  /** Connections, and requests through proxies, that an address may have while their callers are not known yet. */
  readonly anonymousConnectionsMax: number;
  readonly sendingTimes?: SendingTimes | undefined;
}): Promise<FastifyInstance> {
  const gate = createRequestGate({
    nowMs: deps.nowMs,
    // The owner of an IPv6 network would have as many turns as it has addresses.
    addressOf: (request) => networkOf(addressOf(deps, request)),
    hasGoodToken: (request) => hasGoodToken(deps, request),
    isShut: (request) => isShut(deps, request),
    peerOf: (request) => peerOf(deps, request),
    nextTurn: (work) => setImmediate(work),
  });
  const server = fastify({
    serverFactory: (handler) => {
      const onRequest = gate.through(handler);
      const made = createServer({ ...requestTimes, keepAliveTimeout: KEEP_ALIVE_MS }, onRequest);
      // Node would answer what it does not know by itself, uncounted. The expectation may be left unmet.
      made.on('checkExpectation', onRequest);
      gate.watch(made);
      return made;
    },
    bodyLimit: BODY_BYTES_MAX,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    genReqId: requestIdOf,
    frameworkErrors: (error, request, reply) => {
      guard.begin(request.raw, reply.raw);
      void replyToUnroutable(deps, error, request, reply);
    },
    forceCloseConnections: 'idle',
    // Fastify's own answer while it closes has no code; see `refuseWhileClosing`.
    return503OnClosing: false,
  });
  const failures = createFailureLog(deps.log);
  const guard = guardConnections(server.server, {
    perAddressMax: anonymousConnectionsMax,
    sources: deps.sources,
  });
  const parts = { ...deps, tokenMsMax, failures, guard };
  nameRequests(server);
  forbidStorage(server);
  refuseWhileClosing(server);
  countRequests(server, guard);
  countStrangers(server, deps);
  watchStrangers(server);
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

const PREFIX = '/trpc';

/** Mounts the API at `/trpc`, over HTTP and WebSocket. */
async function mountTrpc(server: FastifyInstance, deps: SocketRoutesDeps): Promise<void> {
  const streams = new Set<ServerResponse>();
  await acceptSockets(server, () => {
    // Cut off rather than ended, so that a client that follows something reconnects and resumes.
    for (const stream of streams) stream.destroy();
  });
  mountSockets(server, PREFIX, deps);
  const trpcOptions: FastifyTRPCPluginOptions<typeof appRouter>['trpcOptions'] = {
    router: appRouter,
    onError: ({ error, path, req }) => deps.failures.note(error, { path, requestId: req.id }),
    createContext: ({ req, res, info }) => {
      const caller = callerOf(req.raw);
      if (info.calls.some(({ path }) => isGrantingCall(path)) && deps.isPressed()) {
        deps.onOverload(caller.access.role);
        throw overloaded();
      }
      const isStream = info.calls.some((call) => call.procedure?._def.type === 'subscription');
      // A subscription over HTTP lives as long as a connection does.
      if (isStream) followAccess(deps, caller.access, res.raw);
      else followLater(deps, caller.access, res.raw);
      if (isStream && !res.raw.destroyed) {
        streams.add(res.raw);
        res.raw.once('close', () => streams.delete(res.raw));
      }
      const called = httpCaller(req.raw, info.signal);
      const life = isStream
        ? { ...called, whenRead: whenTaken(deps.pacer, caller.use, res.raw) }
        : called;
      const context = contextOf(deps, req.raw, { ...caller, life });
      const turn = info.isBatchCall ? createTurns() : undefined;
      return { ...context, requestId: req.id, trace: traceOf(req.raw), turn };
    },
    // The registry names the status, also where tRPC has no code of its own for it.
    responseMeta: ({ errors, info }) => {
      const [error] = errors;
      if (error === undefined || info?.isBatchCall === true) return {};
      const answer = describeError(error);
      return { status: answer.httpStatus, headers: retryHeaders(answer) };
    },
  };
  await server.register(async (scope) => {
    requireCaller(scope, deps);
    boundBodies(scope);
    await scope.register(fastifyTRPCPlugin, { prefix: PREFIX, trpcOptions });
  });
}

// Bounds the bodies of calls by their procedures, before they are parsed, and how fast one caller sends them.

const JSON_TYPE = /^application\/json\s*(?:;|$)/iu;

/** For all routes of a scope that is for known callers. */
function boundBodies(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    route.bodyLimit = LIMITS.bodyBytesMax;
  });
  scope.addHook('preParsing', (request, reply, body, done) => {
    const bound = boundOf(request);
    const { use } = callerOf(request.raw);
    const bytes = lengthOf(request);
    try {
      assertReadable(request, bound, bytes);
    } catch (error) {
      void reply.header('connection', 'close');
      done(error as LeaseError);
      return;
    }
    // A small body, or none, is not piped: tRPC listens to the end of a request that has none.
    if (bytes < LARGE_BYTES) {
      use.received(bytes);
      done(null, body);
      return;
    }
    const closeAfter = (): void => void reply.header('connection', 'close');
    done(null, body.pipe(counting(bound, use, closeAfter)));
  });
  scope.addHook('preValidation', (request, _reply, done) => {
    const { body } = request;
    if (typeof body === 'string') assertBound(boundOf(request), { bytes: 0, json: body });
    done();
  });
}

/** Of a body, in bytes; infinite when it is known only at its end. */
function lengthOf(request: FastifyRequest): number {
  const length = request.headers['content-length'];
  return length === undefined && hasBody(request) ? Infinity : Number(length ?? 0);
}

/** @throws {LeaseError} `request.invalid`, `request.too_large`, `auth.forbidden`. */
function assertReadable(request: FastifyRequest, bound: MessageBound, bytes: number): void {
  // tRPC would also read forms and files, which no procedure takes.
  if (bytes > 0 && !JSON_TYPE.test(request.headers['content-type'] ?? '')) {
    throw new LeaseError('request.invalid', 'The content type must be application/json.');
  }
  if (bytes >= LARGE_BYTES) {
    assertMayCallOneOf(pathsOf(request), callerOf(request.raw).access.role);
  }
  if (Number.isFinite(bytes)) assertBound(bound, { bytes });
}

function boundOf(request: FastifyRequest): MessageBound {
  return messageBound(pathsOf(request), callerOf(request.raw).access.role);
}

/** Lets a body through, as fast as its caller may send. The rest of one that is too large is not read. */
function counting(bound: MessageBound, use: PrincipalUse, onTooLarge: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      try {
        assertBound(bound, { bytes });
      } catch (error) {
        onTooLarge();
        done(error as LeaseError);
        return;
      }
      const waitMs = use.received(chunk.length);
      if (waitMs === 0) done(null, chunk);
      else setTimeout(done, waitMs, null, chunk).unref();
    },
  });
}

/**
 * What happens to a request over HTTP before anything else looks at it. Drones and holders renew over
 * WebSockets that are open: what arrives here must leave them most of each turn of the event loop.
 *
 * - A socket may have a few requests under way. No client of ours sends another one before the answer, and
 *   one read of a socket can bring two thousand.
 * - An address that sends too many requests without a good token is not answered: its sockets are closed.
 * - One turn of the event loop begins requests for a few milliseconds, the addresses and the other
 *   datacenters in turn; the others wait for the next turn. Renewals and releases of callers that are known do not wait.
 */

/** Requests of one socket that are not answered yet. */
const UNDER_WAY_MAX = 16;
/** Requests that wait for a turn: of one datacenter, and of all sockets of others; and of one address. */
const WAITING_MAX = 2_000;
const WAITING_PER_ADDRESS_MAX = 500;
/** How long one turn of the event loop begins requests for. */
const SLICE_MS = 4;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

interface RequestGate {
  /** Hands requests on to a handler, later or not at all. */
  readonly through: (handler: Handler) => Handler;
  /** Watches the sockets of a server. */
  watch(server: Server): void;
}

export interface RequestGateDeps {
  /** A monotonic reading, in milliseconds. */
  readonly nowMs: () => number;
  /** Where a request comes from. */
  readonly addressOf: (request: IncomingMessage) => string;
  /** Whether a request comes with a token in force, by what is known without a look into the database. */
  readonly hasGoodToken: (request: IncomingMessage) => boolean;
  /** Whether a request is of a caller that has sent so many that it is not answered. */
  readonly isShut: (request: IncomingMessage) => boolean;
  /** Which other datacenter has sent a request: strangers with its address do not keep it out. */
  readonly peerOf: (request: IncomingMessage) => string | undefined;
  /** Calls `work` in the next turn of the event loop. */
  readonly nextTurn: (work: () => void) => void;
}

export function createRequestGate(deps: RequestGateDeps): RequestGate {
  const waiting = new FairQueue<() => void>();
  const beginAnswer = boundAnswers(UNDER_WAY_MAX);
  let sliceEndMs: number | undefined;
  let peersWaiting = 0;

  const beginTurn = (): void => {
    sliceEndMs = deps.nowMs() + SLICE_MS;
    deps.nextTurn(() => {
      sliceEndMs = undefined;
      if (waiting.size > 0) beginTurn();
    });
    while (waiting.size > 0 && deps.nowMs() < sliceEndMs) waiting.shift()?.();
  };
  const begin = (request: IncomingMessage, work: () => void): void => {
    const peer = deps.peerOf(request);
    const sender = peer ?? deps.addressOf(request);
    const isFull =
      peer === undefined
        ? waiting.size - peersWaiting >= WAITING_MAX ||
          waiting.sizeOf(sender) >= WAITING_PER_ADDRESS_MAX
        : waiting.sizeOf(sender) >= WAITING_MAX;
    if (isFull) {
      request.socket.destroy();
      return;
    }
    if (peer === undefined) waiting.push(sender, work);
    else {
      peersWaiting += 1;
      waiting.push(sender, () => {
        peersWaiting -= 1;
        work();
      });
    }
    if (sliceEndMs === undefined) beginTurn();
    else if (deps.nowMs() < sliceEndMs) waiting.shift()?.();
  };
  return {
    through: (handler) => (request, response) => {
      const { socket } = request;
      if (deps.isShut(request)) {
        socket.destroy();
        return;
      }
      if (!beginAnswer(request, response)) return;
      const work = (): void => {
        if (!socket.destroyed) handler(request, response);
      };
      if (isUrgent(request) && deps.hasGoodToken(request)) work();
      else begin(request, work);
    },
    watch(server) {
      closePipelining(server, UNDER_WAY_MAX, { hasWebSockets: true });
    },
  };
}

function isUrgent({ url = '' }: IncomingMessage): boolean {
  const path = /^\/trpc\/([A-Za-z.]{1,50})(?:\?|$)/u.exec(url)?.[1];
  return path !== undefined && isUrgentCall(path);
}
