/** The port of a gateway that needs no token. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { waitUntil } from '@leasehold/testing';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { createMetricsServer } from './metrics.ts';
import { openGatewayStage, startBackend } from './testing/gateway-stage.ts';

test('a caller that asks for metrics again and again gets the last ones, is refused, and then cut off', async () => {
  let readings = 0;
  class Counted extends Registry {
    override metrics(): Promise<string> {
      readings += 1;
      return Promise.resolve('# none');
    }
  }
  const server = createMetricsServer(new Counted(), () => undefined, { nowMs: () => 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const statuses: (number | 'cut')[] = [];
  for (let asked = 0; asked < 401; asked += 1) {
    const answer = await fetch(`http://127.0.0.1:${String(port)}/metrics`).catch(() => undefined);
    await answer?.text();
    statuses.push(answer?.status ?? 'cut');
  }

  const countOf = (status: number | 'cut'): number =>
    statuses.filter((one) => one === status).length;
  expect([countOf(200), countOf(429), countOf('cut')]).toEqual([200, 200, 1]);
  expect(readings).toBe(10);
});

test('a gateway that is cut off stays ready while it holds requests, and passes what it knows', async () => {
  const stage = await openGatewayStage({ LEASEHOLD_GATEWAY_HOLD_MS: '60000' });
  const readiness = async (): Promise<number> =>
    (await fetch(`${stage.gateway.metricsUrl}/readyz`)).status;
  stage.controller.address = (await startBackend()).address;
  stage.controller.validForMs = 1_000_000;
  const token = await stage.controller.sign();
  expect((await stage.ask(`/t/${token}/`)).status).toBe(200);
  await waitUntil(async () => (await readiness()) === 200);

  stage.controller.beforeSync = () => Promise.reject(new Error('cut off'));
  stage.passTime(30_000);
  expect([await readiness(), (await stage.ask(`/t/${token}/`)).status]).toEqual([200, 200]);
  stage.passTime(31_000);
  expect([await readiness(), (await stage.ask(`/t/${token}/`)).status]).toEqual([503, 200]);
});
