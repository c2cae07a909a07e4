import { readOpenApi } from '@leasehold/api/openapi';
import type { FastifyInstance } from 'fastify';

/**
 * `/openapi.json`: what this controller can be asked. It is open, because it says nothing about what is
 * held here, and tools that read it have no token. It is counted by address.
 */
export function mountOpenApi(server: FastifyInstance): void {
  server.get('/openapi.json', async (_request, reply) => {
    return reply.type('application/json').send(await readOpenApi());
  });
}
