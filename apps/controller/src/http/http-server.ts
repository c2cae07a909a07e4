import { LIMITS } from '@leasehold/keys-core';
import { fastify, type FastifyInstance } from 'fastify';
import { mountExport, type ExportDeps } from '../export/export-routes.ts';
import { installErrorReplies } from './error-replies.ts';
import { mountSignIn, type SignInDeps } from '../sign-in/sign-in-routes.ts';
import { mountHealth, type HealthRoutesDeps } from './health-routes.ts';
import { mountTrpc, type TrpcRoutesDeps } from './trpc-routes.ts';

/** Batched calls name every procedure in the path. */
const PARAM_LENGTH_MAX = 16_384;
const HEADERS_MS_MAX = 10_000;
/** For receiving a request; how long its answer takes is another matter. */
const REQUEST_MS_MAX = 30_000;

/** The HTTP server of a controller, not yet listening. */
export async function createHttpServer(
  deps: TrpcRoutesDeps & HealthRoutesDeps & SignInDeps & ExportDeps,
): Promise<FastifyInstance> {
  const server = fastify({
    requestTimeout: REQUEST_MS_MAX,
    bodyLimit: LIMITS.bodyBytesMax,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    http: { headersTimeout: HEADERS_MS_MAX },
    forceCloseConnections: 'idle',
  });
  installErrorReplies(server, deps.log);
  await mountTrpc(server, deps);
  await mountSignIn(server, deps);
  mountExport(server, deps);
  mountHealth(server, deps);
  return server;
}
