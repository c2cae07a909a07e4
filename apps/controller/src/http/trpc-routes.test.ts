import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '@leasehold/service-kit';
import { WebSocket } from 'ws';
import { installErrorReplies } from './error-replies.ts';
import { createRateLimit } from './rate-limit.ts';
import { mountTrpc, type TrpcRoutesDeps } from './trpc-routes.ts';

test('an address that opens too many WebSockets is refused before the upgrade', async () => {
  const server = fastify();
  onTestFinished(() => server.close());
  const log = createLogger({ name: 'controller', level: 'silent' });
  installErrorReplies(server, log);
  const rateLimit = createRateLimit({ nowMs: () => 0 }, 100, 1);
  await mountTrpc(server, {
    log,
    rateLimit,
    sourceOf: () => '127.0.0.1',
  } as unknown as TrpcRoutesDeps);
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  const open = (): WebSocket =>
    new WebSocket(`${url.replace('http', 'ws')}/trpc?connectionParams=1`);

  const first = open();
  await once(first, 'open');
  const [, response] = (await once(open(), 'unexpected-response')) as [unknown, IncomingMessage];

  expect(response.statusCode).toBe(429);
  response.destroy();
  first.terminate();
});
