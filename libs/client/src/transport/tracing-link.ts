/** A span for each call, in services that use OpenTelemetry; what it belongs to travels with the call. */
import type { AppRouter } from '@leasehold/api';
import { isPeriodicCall } from '@leasehold/keys-core';
import {
  activeTracer,
  beginSpan,
  carrierOf,
  endSpan,
  isWithinSpan,
  SpanKind,
  type TraceCarrier,
} from '@leasehold/service-kit/tracing';
import type { OperationLink, TRPCLink } from '@trpc/client';
import { observable, tap } from '@trpc/server/observable';

type Operation = Parameters<OperationLink<AppRouter>>[0]['op'];

/** Where the link puts what the call belongs to, for the headers of a request. */
const CONTEXT_KEY = 'leaseholdTrace';
/** For messages: what calls over WebSocket belong to, by their input. */
const byInput = new WeakMap<object, TraceCarrier>();

/** Without OpenTelemetry in the process, calls pass through. Subscriptions have no span: they have no end. */
export function tracingLink(): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) => {
      const tracer = activeTracer();
      const isTraced = op.type !== 'subscription' && (isWithinSpan() || !isPeriodicCall(op.path));
      if (tracer === undefined || !isTraced) return next(op);
      return observable((observer) => {
        const span = beginSpan(tracer, {
          name: op.path,
          kind: SpanKind.CLIENT,
          attributes: { 'rpc.system.name': 'trpc', 'rpc.method': op.path },
        });
        // Another call may have the same input: this object is of this call alone.
        const input = isObject(op.input) ? { ...op.input } : op.input;
        const trace = carrierOf(span);
        if (isObject(input)) byInput.set(input, trace);
        return next({ ...op, input, context: { ...op.context, [CONTEXT_KEY]: trace } })
          .pipe(tap({ error: (error) => endSpan(span, error), complete: () => endSpan(span) }))
          .subscribe(observer);
      });
    };
}

/** What a request over HTTP has to send in its headers. */
export function traceHeaders({ context }: Pick<Operation, 'context'>): TraceCarrier {
  return (context[CONTEXT_KEY] as TraceCarrier | undefined) ?? {};
}

/** Writes messages as tRPC does, and beside each call what it belongs to. */
export const tracingEncoder = {
  encode: (message: unknown): string => {
    if (activeTracer() === undefined) return JSON.stringify(message);
    return JSON.stringify(Array.isArray(message) ? message.map(withTrace) : withTrace(message));
  },
  decode: (data: unknown): unknown => JSON.parse(String(data)) as unknown,
};

function withTrace(message: unknown): unknown {
  if (!isObject(message) || !('params' in message) || !isObject(message.params)) return message;
  const { params } = message;
  const input = 'input' in params ? params.input : undefined;
  const trace = isObject(input) ? byInput.get(input) : undefined;
  return trace === undefined ? message : { ...message, trace };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
