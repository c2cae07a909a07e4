import type { ServerResponse } from 'node:http';
import { Transform } from 'node:stream';
import {
  appRouter,
  assertBound,
  assertMayCallOneOf,
  createTurns,
  describeError,
  isGrantingCall,
  messageBound,
  type MessageBound,
} from '@leasehold/api';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { fastifyTRPCPlugin, type FastifyTRPCPluginOptions } from '@trpc/server/adapters/fastify';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { PrincipalUse } from '../fair-use/fair-use.ts';
import { overloaded } from '../fair-use/pacing.ts';
import { LARGE_BYTES } from './calls/inbox.ts';
import {
  callerOf,
  contextOf,
  hasBody,
  httpCaller,
  pathsOf,
  requireCaller,
  traceOf,
} from './request-context.ts';
import { followAccess, followLater } from './sockets/open-connections.ts';
import { whenTaken } from './sockets/slow-readers.ts';
import { acceptSockets, mountSockets, type SocketRoutesDeps } from './sockets/socket-routes.ts';

const PREFIX = '/trpc';

export type TrpcRoutesDeps = SocketRoutesDeps;

/** Mounts the API at `/trpc`, over HTTP and WebSocket. */
export async function mountTrpc(server: FastifyInstance, deps: TrpcRoutesDeps): Promise<void> {
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
      return { status: describeError(error).httpStatus };
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
