import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { assertRole, assertUnlimited } from '@leasehold/api';
import { LeaseError, type Clock } from '@leasehold/keys-core';
import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { sharedRead } from '@leasehold/keys-core/stats';
import { callerOf, requireCaller } from './authenticated-routes.ts';
import type { ContextDeps } from '../request-context.ts';

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
