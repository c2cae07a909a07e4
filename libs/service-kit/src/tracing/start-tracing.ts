/** Traces of a process of Leasehold: off unless OpenTelemetry's own variables ask for them. */
import type { Environment } from '../environment.ts';
import type { TracedProcess, Tracing } from './sdk.ts';

export type { TracedProcess, Tracing } from './sdk.ts';

const OFF: Tracing = { stop: () => Promise.resolve() };

/**
 * Begins to send traces if the environment names a receiver. The code that makes and sends spans is loaded only
 * then. A problem with it is logged, and the process goes on without traces.
 */
export async function startTracing(process: TracedProcess): Promise<Tracing> {
  if (!isTracingWanted(process.environment)) return OFF;
  try {
    const { startSdk } = await import('./sdk.ts');
    return startSdk(process);
  } catch (error) {
    process.log.error({ err: error }, 'no traces are sent: their configuration is not valid');
    return OFF;
  }
}

/** Whether OpenTelemetry's variables ask for traces. */
export function isTracingWanted(environment: Environment): boolean {
  const {
    OTEL_SDK_DISABLED: disabled,
    OTEL_TRACES_EXPORTER: exporter,
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracesEndpoint,
  } = environment;
  if (disabled?.toLowerCase() === 'true' || exporter === 'none') return false;
  return Boolean(endpoint) || Boolean(tracesEndpoint) || exporter === 'otlp';
}
