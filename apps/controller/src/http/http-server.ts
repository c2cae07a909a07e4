import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { fastify, type FastifyInstance } from 'fastify';
import { mountExport, type ExportDeps } from '../export/export-routes.ts';
import { installErrorReplies, replyWithError } from './error-replies.ts';
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
    // Fastify's own answer while it closes has no code; see `refuseWhileClosing`.
    return503OnClosing: false,
  });
  refuseWhileClosing(server);
  installErrorReplies(server, deps.log);
  await mountTrpc(server, deps);
  await mountSignIn(server, deps);
  mountExport(server, deps);
  mountHealth(server, deps);
  return server;
}

/** Requests on connections that are still open, WebSockets that are being opened among them. */
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
    // The socket of an upgrade is no longer the server's, which would close it.
    reply.raw.once('finish', () => {
      request.raw.socket.destroySoon();
    });
    replyWithError(reply, new LeaseError('controller.stopping'));
  });
}
