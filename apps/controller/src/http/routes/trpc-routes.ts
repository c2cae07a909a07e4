import type { ServerResponse } from 'node:http';
import { appRouter, createTurns, describeError, isGrantingCall } from '@leasehold/api';
import { fastifyTRPCPlugin, type FastifyTRPCPluginOptions } from '@trpc/server/adapters/fastify';
import type { FastifyInstance } from 'fastify';
import { overloaded } from '../../fair-use/rates.ts';
import { contextOf, httpCaller, traceOf } from '../request-context.ts';
import { followAccess, followLater } from '../sockets/followed-connections.ts';
import { whenTaken } from '../sockets/slow-readers.ts';
import { acceptSockets, mountSockets, type SocketRoutesDeps } from '../sockets/socket-routes.ts';
import { callerOf, requireCaller } from './authenticated-routes.ts';
import { boundBodies } from './body-bounds.ts';

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
