/** The span of a procedure: a part of its caller's trace, or the first span of a new one. */
import { isPeriodicCall } from '@leasehold/keys-core';
import {
  activeTracer,
  contextFrom,
  isWithinSpan,
  SpanKind,
  traced,
} from '@leasehold/service-kit/tracing';
import type { ApiContext } from './context.ts';

/** Runs a procedure, in a span if this controller sends traces. */
export function inSpan<Result>(
  path: string,
  { trace, services, access }: Pick<ApiContext, 'trace' | 'services' | 'access'>,
  run: () => Promise<Result>,
): Promise<Result> {
  const tracer = activeTracer();
  if (tracer === undefined) return run();
  // Over HTTP the trace is in the headers; a message over WebSocket is handed over within it.
  if (trace === undefined && !isWithinSpan() && isPeriodicCall(path)) return run();
  return traced(
    tracer,
    {
      name: path,
      kind: SpanKind.SERVER,
      attributes: {
        'rpc.system.name': 'trpc',
        'rpc.method': path,
        'leasehold.datacenter': services.datacenter,
        ...(access === undefined ? {} : { 'leasehold.role': access.role }),
      },
      parent: trace === undefined ? undefined : contextFrom(trace),
    },
    run,
  );
}
