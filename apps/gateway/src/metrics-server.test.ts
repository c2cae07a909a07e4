/** The port of a gateway that needs no token. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { createMetricsServer } from './metrics.ts';

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
