/** OpenTelemetry's SDK, with what its own variables say. Loaded only where traces are wanted. */
import { setTimeout as pause } from 'node:timers/promises';
import { context, diag, DiagLogLevel, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import type { Environment } from '../environment.ts';
import type { Logger } from '../logger.ts';

/** How long the last spans may take: a receiver that does not answer must not hold up a stop. */
const FLUSH_MS_MAX = 2_000;
/** OpenTelemetry's default. */
const SEND_EVERY_MS = 5_000;

/** Registers a provider for this process. @throws {Error} for a variable with a value that is unknown. */
export function startSdk({ name, version, environment, log }: TracedProcess): Tracing {
  const provider = new TracerProvider({
    sampler: samplerOf(environment),
    spanProcessors: [processorOf(environment)],
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': name, 'service.version': version }))
      .merge(detectResources({ detectors: [envDetector] })),
  });
  const say = (message: string): void => log.warn({ part: 'traces' }, message);
  diag.setLogger(
    {
      error: say,
      warn: say,
      info: () => undefined,
      debug: () => undefined,
      verbose: () => undefined,
    },
    DiagLogLevel.WARN,
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  log.info('traces are sent with OpenTelemetry');
  return {
    async stop() {
      const flushed = provider.shutdown().catch((error: unknown) => say(String(error)));
      await Promise.race([flushed, pause(FLUSH_MS_MAX, undefined, { ref: false })]);
      trace.disable();
      context.disable();
      propagation.disable();
      diag.disable();
    },
  };
}

function processorOf(environment: Environment): BatchSpanProcessor {
  const delayMs = Number(environment['OTEL_BSP_SCHEDULE_DELAY'] ?? SEND_EVERY_MS);
  if (!(delayMs >= 0)) throw new Error('OTEL_BSP_SCHEDULE_DELAY: must be milliseconds');
  return new BatchSpanProcessor({
    exporter: exporterOf(environment),
    scheduledDelayMillis: delayMs,
  });
}

/** The exporters read their other variables themselves: the endpoint, headers, timeout, certificates. */
function exporterOf(environment: Environment): SpanExporter {
  const protocol =
    environment['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] ??
    environment['OTEL_EXPORTER_OTLP_PROTOCOL'] ??
    'http/protobuf';
  if (protocol === 'http/protobuf') return new ProtobufExporter();
  if (protocol === 'http/json') return new JsonExporter();
  throw new Error('OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf or http/json');
}

/** By OpenTelemetry's names. What a caller has decided for its trace holds for `parentbased_…`, the default. */
function samplerOf(environment: Environment): Sampler {
  const name = environment['OTEL_TRACES_SAMPLER'] ?? 'parentbased_always_on';
  const ratio = Number(environment['OTEL_TRACES_SAMPLER_ARG'] ?? 1);
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new Error('OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1');
  }
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const root = roots[name.replace(/^parentbased_/u, '')]?.();
  if (root === undefined) {
    const known = Object.keys(roots).flatMap((one) => [one, `parentbased_${one}`]);
    throw new Error(`OTEL_TRACES_SAMPLER: must be one of ${known.join(', ')}`);
  }
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

/** What a process that may send traces is called. */
export interface TracedProcess {
  /** `service.name`, unless `OTEL_SERVICE_NAME` names another. */
  readonly name: string;
  readonly version: string;
  readonly environment: Environment;
  readonly log: Logger;
}

/** Traces that are being sent. */
export interface Tracing {
  /** Sends what was not sent yet, within a bounded time. Never throws. */
  stop(): Promise<void>;
}
