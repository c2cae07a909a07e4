import { startTraceReceiver, type TraceReceiver } from '@leasehold/testing';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createLogger } from '@leasehold/service-kit';
import { isTracingWanted, startTracing, type Tracing } from '@leasehold/service-kit/start-tracing';
import {
  activeTracer,
  beginSpan,
  endSpan,
  isWithinSpan,
  SpanKind,
  TRACE_ORIGINS,
  traced,
  traceField,
  withinCarried,
  withinSpan,
  type Tracer,
} from '@leasehold/service-kit/tracing';

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Traces of this process, until the test ends. */
async function open(
  variables: Readonly<Record<string, string>> = {},
): Promise<{ receiver: TraceReceiver; tracing: Tracing; tracer: Tracer; log: () => string }> {
  const receiver = await startTraceReceiver();
  onTestFinished(() => receiver.close());
  const environment = {
    [ENDPOINT]: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    ...variables,
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  let log = '';
  const destination = { write: (line: string) => void (log += line) };
  const tracing = await startTracing({
    name: 'leasehold-test',
    version: '1',
    environment,
    log: createLogger({ name: 'test', level: 'info', destination }),
  });
  onTestFinished(() => tracing.stop());
  return { receiver, tracing, tracer: activeTracer() as Tracer, log: () => log };
}

const plan = (name: string) => ({ name, kind: SpanKind.INTERNAL, attributes: {} });

describe('traces', () => {
  test.each([
    [{}, false],
    [{ [ENDPOINT]: '' }, false],
    [{ [ENDPOINT]: 'http://collector:4318' }, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
    [{ OTEL_TRACES_EXPORTER: 'none', [ENDPOINT]: 'http://collector:4318' }, false],
    [{ OTEL_SDK_DISABLED: 'TRUE', [ENDPOINT]: 'http://collector:4318' }, false],
  ])('are sent only if the environment asks for them: %j', (environment, isWanted) => {
    expect(isTracingWanted(environment)).toBe(isWanted);
  });

  test('that are off leave no provider, no context and no field of a message', async () => {
    const log = createLogger({ name: 'test', level: 'silent' });
    const tracing = await startTracing({ name: 'x', version: '1', environment: {}, log });

    const seen = withinCarried(
      { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      () => ({ tracer: activeTracer(), isWithin: isWithinSpan(), field: traceField() }),
    );
    await tracing.stop();

    expect(seen).toEqual({ tracer: undefined, isWithin: false, field: {} });
    expect(TRACE_ORIGINS.read()).toBeUndefined();
  });

  test.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'must be http/protobuf or http/json'],
    [{ OTEL_TRACES_SAMPLER: 'often' }, 'parentbased_traceidratio'],
    [{ OTEL_TRACES_SAMPLER_ARG: '2' }, 'must be a number from 0 to 1'],
    [{ OTEL_BSP_SCHEDULE_DELAY: 'soon' }, 'must be milliseconds'],
  ])(
    'with the wrong value %j are not sent, and the log names what is allowed',
    async (wrong, text) => {
      const { log, tracer } = await open(wrong);

      expect(tracer).toBeUndefined();
      expect(log()).toContain(text);
      expect(log()).toContain(Object.keys(wrong)[0]);
    },
  );

  test('are sent as protobuf if nothing else is wanted', async () => {
    const { receiver, tracing, tracer } = await open({
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    });

    endSpan(beginSpan(tracer, plan('a-span-by-its-name')));
    await tracing.stop();

    expect(receiver.requests.map(({ type }) => type)).toEqual([
      '/v1/traces application/x-protobuf',
    ]);
    expect(receiver.requests[0]?.text).toContain('a-span-by-its-name');
  });

  test('that a caller does not sample are not sent', async () => {
    const { receiver, tracing, tracer } = await open();
    const notSampled = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';

    await withinCarried({ traceparent: notSampled }, () =>
      traced(tracer, plan('quiet'), () => Promise.resolve()),
    );
    endSpan(beginSpan(tracer, plan('of its own')));
    await tracing.stop();

    expect(receiver.spans.map(({ name }) => name)).toEqual(['of its own']);
  });

  test('of a batch belong to its first call, and link to the others', async () => {
    const { receiver, tracing, tracer } = await open();
    const callers = ['a', 'b', 'c'].map((name) => beginSpan(tracer, plan(name)));
    const origins = callers.map((caller) => withinSpan(caller, TRACE_ORIGINS.read));

    await TRACE_ORIGINS.run(origins, () => traced(tracer, plan('batch'), () => Promise.resolve()));
    for (const caller of callers) endSpan(caller);
    await tracing.stop();

    const [a, b, c] = ['a', 'b', 'c'].map((name) =>
      receiver.spans.find((span) => span.name === name),
    );
    const batch = receiver.spans.find(({ name }) => name === 'batch');
    expect(batch?.parentSpanId).toBe(a?.spanId);
    expect(batch?.links.map(({ spanId }) => spanId)).toEqual([b?.spanId, c?.spanId]);
  });

  test('have the code of an error and not its message', async () => {
    const { receiver, tracing, tracer } = await open();
    const failure = Object.assign(new Error('for alice@example.org'), { code: '23505' });

    await expect(traced(tracer, plan('failing'), () => Promise.reject(failure))).rejects.toBe(
      failure,
    );
    await tracing.stop();

    expect(receiver.spans).toMatchObject([
      { name: 'failing', hasFailed: true, attributes: { 'error.type': '23505' } },
    ]);
    expect(receiver.requests.map(({ text }) => text).join('')).not.toContain('alice');
  });
});
