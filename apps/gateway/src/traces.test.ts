import { createLogger } from '@leasehold/service-kit';
import { startTracing } from '@leasehold/service-kit/start-tracing';
import { startTraceReceiver, waitUntil, type TraceReceiver } from '@leasehold/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openGatewayStage, startBackend } from './testing/gateway-stage.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const GIVEN = { traceparent: `00-${TRACE}-${PARENT}-01` };

async function startTraces(): Promise<TraceReceiver> {
  const receiver = await startTraceReceiver();
  onTestFinished(() => receiver.close());
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '50',
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const log = createLogger({ name: 'test', level: 'silent' });
  const tracing = await startTracing({ name: 'gateway', version: '1', environment, log });
  onTestFinished(() => tracing.stop());
  return receiver;
}

/** What the program is told of the trace of a request. */
async function traceAtBackend(variables: Record<string, string>): Promise<string | undefined> {
  const stage = await openGatewayStage(variables);
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const token = await stage.controller.sign();
  const { json } = await stage.ask(`/t/${token}/`, { headers: GIVEN });
  return json.headers['traceparent'];
}

test('a trace that a trusted proxy began goes on in the gateway, and from there in the program', async () => {
  const receiver = await startTraces();

  const told = await traceAtBackend({ LEASEHOLD_TRUSTED_PROXIES: '127.0.0.1' });
  const span = await waitUntil(() =>
    receiver.spans.find(({ name, traceId }) => name === 'gateway.request' && traceId === TRACE),
  );

  expect(span.parentSpanId).toBe(PARENT);
  expect(told).toBe(`00-${TRACE}-${span.spanId}-01`);
});

test('a trace that a client made up is not joined: the gateway begins one of its own', async () => {
  const receiver = await startTraces();

  const told = await traceAtBackend({});
  const span = await waitUntil(() => receiver.spans.find(({ name }) => name === 'gateway.request'));

  expect(span.traceId).not.toBe(TRACE);
  expect(told).toBe(`00-${span.traceId}-${span.spanId}-01`);
});

test('without traces in the gateway the word of the client stays', async () => {
  expect(await traceAtBackend({})).toBe(GIVEN.traceparent);
});
