import { LeaseError, roleAllows } from '@leasehold/keys-core';
import type { TokenAuthority } from '@leasehold/keys-core/store';
import type { FastifyInstance } from 'fastify';
import type { Registry } from '@leasehold/service-kit';
import type { PeerAccess } from '../peers/peer-access.ts';
import type { RateLimit } from './rate-limit.ts';
import type { SourceAddress } from './source-address.ts';
import { bearerOf, countRequest } from './request-context.ts';

export interface HealthRoutesDeps {
  /** Resolves when the controller can do its work; else throws. */
  readonly checkReady: () => Promise<void>;
  readonly tokens: TokenAuthority;
  readonly peers: PeerAccess;
  readonly rateLimit: RateLimit;
  readonly sourceOf: SourceAddress;
  readonly metrics: Registry;
}

/**
 * `/healthz`: the process answers. `/readyz`: it can do its work. Both are open. `/metrics` is for
 * viewers that are not limited to namespaces: its labels name actions of all.
 */
export function mountHealth(server: FastifyInstance, deps: HealthRoutesDeps): void {
  server.get('/healthz', () => ({ status: 'ok' }));
  server.get('/readyz', async () => {
    try {
      await deps.checkReady();
    } catch (error) {
      // Whatever keeps the database from answering: a controller without it is not ready.
      if (error instanceof LeaseError) throw error;
      throw new LeaseError('store.unavailable', undefined, { cause: error });
    }
    return { status: 'ready' };
  });
  server.get('/metrics', async (request, reply) => {
    countRequest(deps, request.raw);
    const secret = bearerOf(request.raw);
    const access = secret === undefined ? undefined : await deps.tokens.authenticate(secret);
    if (access === undefined) throw new LeaseError('auth.required');
    if (!roleAllows(access.role, 'viewer')) throw new LeaseError('auth.forbidden');
    if (access.namespaces !== null) {
      throw new LeaseError(
        'auth.forbidden',
        'Metrics count all namespaces. This token is limited to some.',
      );
    }
    return reply.type(deps.metrics.contentType).send(await deps.metrics.metrics());
  });
}
