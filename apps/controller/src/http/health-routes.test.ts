import { createBootClock, createLogger } from '@leasehold/service-kit';
import { fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { mountHealth, type HealthRoutesDeps } from './http-server.ts';
import { createFailureLog, installErrorReplies } from './request-context.ts';

test('a controller is not ready while its database answers with any error', async () => {
  const server = fastify();
  onTestFinished(() => server.close());
  installErrorReplies(
    server,
    createFailureLog(createLogger({ name: 'controller', level: 'silent' })),
  );
  const checkReady = (): Promise<void> =>
    Promise.reject(new Error('the database system is starting up'));
  await mountHealth(server, {
    checkReady,
    clock: createBootClock(),
  } as unknown as HealthRoutesDeps);

  const answer = await server.inject('/readyz');

  expect(answer.statusCode).toBe(503);
  expect(answer.json()).toMatchObject({ error: { data: { leaseholdCode: 'store.unavailable' } } });
});
