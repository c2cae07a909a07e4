import { createLogger } from '@leasehold/service-kit';
import { startTracing } from '@leasehold/service-kit/start-tracing';
import { startEtcd, startTraceReceiver, waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openTestDatacenters } from '../testing/test-datacenters.ts';

const SERVER = 2;

test('a trace goes on in the other datacenter that a call is forwarded to', async () => {
  const receiver = await startTraceReceiver();
  onTestFinished(() => receiver.close());
  const etcd = await startEtcd();
  onTestFinished(async () => {
    await etcd.stop();
  });
  const world = await openTestDatacenters({ names: ['dc1', 'dc2'], etcd });
  onTestFinished(() => world.close());
  await world.allSee();
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '50',
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const log = createLogger({ name: 'test', level: 'silent' });
  const tracing = await startTracing({ name: 'both', version: '1', environment, log });
  onTestFinished(() => tracing.stop());
  const { secret } = await world.of('dc1').token('viewer');
  const traceId = '0af7651916cd43dd8448eb211c80319c';

  const query = encodeURIComponent(
    JSON.stringify({ namespace: 'a', name: 'b', datacenter: 'dc2' }),
  );
  const response = await fetch(`${world.of('dc1').url}/trpc/leases.get?input=${query}`, {
    headers: {
      authorization: `Bearer ${secret}`,
      traceparent: `00-${traceId}-b7ad6b7169203331-01`,
    },
  });
  const ofTrace = (name: string, datacenter: string) =>
    receiver.spans.find(
      (span) =>
        span.traceId === traceId &&
        span.name === name &&
        span.kind === SERVER &&
        span.attributes['leasehold.datacenter'] === datacenter,
    );
  const inFirst = await waitUntil(() => ofTrace('leases.get', 'dc1'));
  const carriedOut = await waitUntil(() => ofTrace('peer.carryOut', 'dc2'));
  const inSecond = await waitUntil(() => ofTrace('leases.get', 'dc2'));

  expect(response.status).toBe(200);
  expect(inFirst.parentSpanId).toBe('b7ad6b7169203331');
  expect(carriedOut.parentSpanId).toBe(inFirst.spanId);
  expect(inSecond.parentSpanId).toBe(carriedOut.spanId);
});
