/**
 * Spans, with no more than OpenTelemetry's API: what libraries may use. In a process without a provider
 * nothing is made: callers ask {@link activeTracer} first, which takes some nanoseconds.
 *
 * A span has the name of what was done and how it ended. It has no inputs, no parameters of statements and no
 * messages of errors, because all of these may hold what callers sent. Instrumentations of `pg` would send the text of
 * statements, and `AsyncLocalStorage` would slow every promise: a span is passed on as a value.
 */
import {
  context,
  createContextKey,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Link,
  type Span,
  type Tracer,
} from '@opentelemetry/api';

export { SpanKind, type Attributes, type Context, type Span, type Tracer };

const NAME = 'leasehold';

/** What carries a trace from one process to another: `traceparent`, and `tracestate` if there is one. */
export type TraceCarrier = Readonly<Record<string, string>>;

/** A provider that stands for the one that may be registered later. */
interface Delegating {
  getDelegateTracer(name: string): Tracer | undefined;
}

/** Where all copies of the API in a process keep what was registered. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

/** The tracer of this process; undefined if nobody has registered a provider. */
export function activeTracer(): Tracer | undefined {
  // The API itself takes twenty times as long to find out.
  if (!(REGISTERED in globalThis)) return undefined;
  const provider = trace.getTracerProvider();
  return isDelegating(provider) ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME);
}

function isDelegating(provider: object): provider is Delegating {
  return 'getDelegateTracer' in provider;
}

/** Whether what runs now belongs to a trace. */
export function isWithinSpan(): boolean {
  return trace.getSpanContext(context.active()) !== undefined;
}

/** What a span is called, and what it belongs to. */
export interface SpanPlan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  /** By default what runs now. */
  readonly parent?: Context | undefined;
}

/** Begins a span. The caller ends it, with {@link endSpan}. */
export function beginSpan(tracer: Tracer, { name, parent, ...options }: SpanPlan): Span {
  const within = parent ?? context.active();
  const links = within.getValue(LINKS) as readonly Link[] | undefined;
  return tracer.startSpan(
    name,
    links === undefined ? options : { ...options, links: [...links] },
    within,
  );
}

/** Ends a span. Of an error it keeps the code or the name. */
export function endSpan(span: Span, error?: unknown): void {
  if (error !== undefined) {
    const name = codeOf(error);
    span.setAttribute('error.type', name);
    span.setStatus({ code: SpanStatusCode.ERROR, message: name });
  }
  span.end();
}

/** Runs some work within a span, which ends with it. */
export async function traced<Result>(
  tracer: Tracer,
  plan: SpanPlan,
  work: () => Promise<Result>,
): Promise<Result> {
  const span = beginSpan(tracer, plan);
  try {
    const result = await context.with(trace.setSpan(plan.parent ?? context.active(), span), work);
    endSpan(span);
    return result;
  } catch (error) {
    endSpan(span, error);
    throw error;
  }
}

/** Runs some work as a part of a span that goes on. */
export function withinSpan<Result>(span: Span, work: () => Result): Result {
  return context.with(trace.setSpan(context.active(), span), work);
}

/** The headers of W3C's trace context. */
const CARRIED = ['traceparent', 'tracestate'];

/** What a message or the headers of a request carry about a trace. */
export function carrierIn(sent: unknown): TraceCarrier {
  if (typeof sent !== 'object' || sent === null) return {};
  const carried = Object.entries(sent).filter(
    (entry): entry is [string, string] =>
      CARRIED.includes(entry[0]) && typeof entry[1] === 'string',
  );
  return Object.fromEntries(carried);
}

/** Runs some work as a part of what another process has sent. */
export function withinCarried<Result>(carrier: TraceCarrier, work: () => Result): Result {
  return context.with(contextFrom(carrier), work);
}

/** What another process has sent. */
export function contextFrom(carrier: TraceCarrier): Context {
  return propagation.extract(ROOT_CONTEXT, carrier);
}

/** What to send to another process about a span, or about what runs now. Empty without a trace. */
export function carrierOf(span?: Span): TraceCarrier {
  const carrier: Record<string, string> = {};
  const active = context.active();
  propagation.inject(span === undefined ? active : trace.setSpan(active, span), carrier);
  return carrier;
}

/** The field of a message with which it carries what runs now; no field without a trace. */
export function traceField(): { readonly trace?: TraceCarrier } {
  return activeTracer() === undefined || !isWithinSpan() ? {} : { trace: carrierOf() };
}

/** The other calls of a batch, whose spans its own span names. */
const LINKS = createContextKey('leasehold.links');
/** A batch has up to a thousand calls; a span that names them all would be larger than all of theirs. */
const LINKS_MAX = 32;

/**
 * For a batch that carries out many calls: it belongs to the trace of the first, and names the others. What
 * runs the batch may be the answer of an earlier one, which has nothing to do with it.
 */
export const TRACE_ORIGINS = {
  /** What a call belongs to. */
  read: (): unknown => (activeTracer() === undefined ? undefined : context.active()),
  /** Runs a batch as a part of what its calls belong to. */
  run<Result>(origins: readonly unknown[], work: () => Result): Result {
    if (origins[0] === undefined) return work();
    const known = origins
      .filter(isContext)
      .filter((one) => trace.getSpanContext(one) !== undefined);
    const [first, ...others] = known;
    if (first === undefined) return context.with(ROOT_CONTEXT, work);
    const links = others.slice(0, LINKS_MAX).flatMap((one): Link[] => {
      const spanContext = trace.getSpanContext(one);
      return spanContext === undefined ? [] : [{ context: spanContext }];
    });
    return context.with(links.length === 0 ? first : first.setValue(LINKS, links), work);
  },
};

function isContext(value: unknown): value is Context {
  return typeof value === 'object' && value !== null && 'getValue' in value;
}

/** The code of an error, else its name: never its message. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const root = error.cause instanceof Error && 'code' in error.cause ? error.cause : error;
  return 'code' in root && typeof root.code === 'string' ? root.code : root.name;
}
