/** Traces of a whole Leasehold, of processes as they ship, at a receiver in this process. */
import { createControllerClient, createLeasehold, type Leasehold } from '@leasehold/client';
import { createLogger } from '@leasehold/service-kit';
import { startTracing, type Tracing } from '@leasehold/service-kit/start-tracing';
import {
  openTestStage,
  startTraceReceiver,
  waitUntil,
  type ReceivedSpan,
  type Stage,
  type TraceReceiver,
} from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';

const SERVER = 2;
const CLIENT = 3;
const CONSUMER = 5;
/** A program that answers, and ends when it is told to. */
const ROOM = `process.on('SIGTERM', () => process.exit(0));
  require('node:net').createServer().listen(process.env.PORT, '127.0.0.1');`;
const SECRET = 'a-secret-of-a-caller';

let receiver: TraceReceiver;
let stage: Stage;
let tracing: Tracing;
let environment: Record<string, string>;
const endings: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  receiver = await startTraceReceiver();
  endings.unshift(() => receiver.close());
  environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  const room = { command: process.execPath, args: ['-e', ROOM], readiness: { type: 'tcp' } };
  stage = await openTestStage({
    env: environment,
    drones: [{ droneId: 'drone-1', programs: { room }, env: environment }],
  });
  endings.unshift(() => stage.close());
  tracing = await tracedHere();
  endings.unshift(() => tracing.stop());
});

afterAll(async () => {
  for (const end of endings) await end();
  vi.unstubAllEnvs();
});

/** This process is a service that has OpenTelemetry. */
async function tracedHere(): Promise<Tracing> {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const log = createLogger({ name: 'service', level: 'silent' });
  return startTracing({ name: 'a-service', version: '1', environment, log });
}

function openClient(transport: 'ws' | 'http'): Leasehold {
  const client = createLeasehold({
    url: stage.url,
    token: stage.credentials.client,
    transport,
  });
  onTestFinished(() => client.close());
  return client;
}

/** The span below another one, once it has arrived. */
async function below(
  parent: ReceivedSpan,
  wanted: { readonly name: string; readonly service: string; readonly kind: number },
): Promise<ReceivedSpan> {
  return waitUntil(
    () =>
      receiver.spans.find(
        ({ parentSpanId, name, service, kind }) =>
          parentSpanId === parent.spanId &&
          name === wanted.name &&
          service === wanted.service &&
          kind === wanted.kind,
      ),
    {
      what: `the span ${wanted.name} of ${wanted.service} below ${parent.name}`,
      timeoutMs: 30_000,
    },
  );
}

async function root(name: string, isIt: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
  return waitUntil(
    () => receiver.spans.find((span) => span.name === name && span.kind === CLIENT && isIt(span)),
    { what: `the span of the call ${name}`, timeoutMs: 30_000 },
  );
}

describe('one trace', () => {
  test.each(['ws', 'http'] as const)(
    'goes from a call over %s through the procedure and its statement to the drone',
    async (transport) => {
      const client = openClient(transport);
      const before = receiver.spans.length;

      const key = { name: `of-${transport}`, namespace: 'traces' };
      const { backendId } = await client.keys.connect({ key, spawn: { program: 'room' } });
      const call = await root('keys.connect', (span) => receiver.spans.indexOf(span) >= before);
      const procedure = await below(call, {
        name: 'keys.connect',
        service: 'leasehold-controller',
        kind: SERVER,
      });
      const statement = await below(procedure, {
        name: 'connect',
        service: 'leasehold-controller',
        kind: CLIENT,
      });
      const spawn = await below(statement, {
        name: 'drone.spawn',
        service: 'leasehold-drone',
        kind: CONSUMER,
      });

      expect(call).toMatchObject({ service: 'a-service', parentSpanId: '', hasFailed: false });
      expect(procedure.attributes).toMatchObject({ 'leasehold.role': 'client' });
      expect(statement.attributes).toEqual({
        'db.system.name': 'postgresql',
        'db.operation.name': 'connect',
      });
      expect(spawn.attributes).toMatchObject({
        'leasehold.backend.id': backendId,
        'leasehold.program': 'room',
      });
      const spans = [call, procedure, statement, spawn];
      expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
    },
  );

  test('goes from the call that stops a backend to the drone that stops it', async () => {
    const client = openClient('ws');
    const { backendId } = await client.keys.connect({
      key: { name: 'to-stop', namespace: 'traces' },
      spawn: { program: 'room' },
      waitFor: 'ready',
    });
    const operator = createControllerClient({
      url: stage.url,
      token: stage.credentials.admin,
      transport: 'http',
    });
    onTestFinished(() => operator.close());

    await operator.api.backends.terminate.mutate({ backendId, mode: 'soft', reason: 'why' });
    const call = await root('backends.terminate', () => true);
    const procedure = await below(call, {
      name: 'backends.terminate',
      service: 'leasehold-controller',
      kind: SERVER,
    });
    const stop = await below(procedure, {
      name: 'drone.stop',
      service: 'leasehold-drone',
      kind: CONSUMER,
    });

    expect(stop.attributes).toMatchObject({
      'leasehold.backend.id': backendId,
      'leasehold.stop.reason': 'external',
    });
    expect(stop.traceId).toBe(call.traceId);
  });

  test('has the code of an error, and nothing that callers sent', async () => {
    const client = openClient('http');
    const refused = client.api.backends.get.query({ backendId: SECRET });

    await expect(refused).rejects.toMatchObject({ data: { leaseholdCode: 'backend.not_found' } });
    const call = await root('backends.get', ({ hasFailed }) => hasFailed);
    const procedure = await below(call, {
      name: 'backends.get',
      service: 'leasehold-controller',
      kind: SERVER,
    });

    expect(procedure.attributes).toMatchObject({ 'error.type': 'backend.not_found' });
    expect(receiver.requests.map(({ text }) => text).join('')).not.toContain(SECRET);
  });

  test('is begun by no renewal, heartbeat or acknowledgement', async () => {
    const client = openClient('ws');
    const lease = await client.defineLease(['traces'], { ttlMs: 6_000 }).acquire('renewed');
    onTestFinished(async () => {
      await lease.release();
    });
    const headers = { authorization: `Bearer ${stage.credentials.admin}` };
    await waitUntil(
      async () => {
        const metrics = await (await fetch(`${stage.url}/metrics`, { headers })).text();
        return /^leasehold_renewals_total\{face="lease",outcome="renewed"\} [1-9]/mu.test(metrics);
      },
      { what: 'a renewal', timeoutMs: 30_000 },
    );
    // Sent after the renewal: what came before it has arrived with it.
    await client.api.leases.list.query({ namespace: 'traces' });
    await below(await root('leases.list', () => true), {
      name: 'leases.list',
      service: 'leasehold-controller',
      kind: SERVER,
    });

    const periodic = receiver.spans.filter(({ name }) =>
      ['leases.heartbeat', 'keys.renew', 'drones.heartbeat', 'drones.ack'].includes(name),
    );

    expect(periodic).toEqual([]);
  });
});
