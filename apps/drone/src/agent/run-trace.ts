import type { SpawnAction, TerminateAction } from '@leasehold/api';
import {
  activeTracer,
  beginSpan,
  contextFrom,
  endSpan,
  SpanKind,
  withinSpan,
  type Attributes,
  type Context,
  type Span,
} from '@leasehold/service-kit/tracing';

/**
 * The spans of one backend: from the action to the running process, and from the first request to stop it to
 * its end. They belong to the trace of the connect that started it, or of the call that stopped it. A backend
 * that was adopted from an earlier agent has only the second.
 */
export class RunTrace {
  readonly #attributes: Attributes;
  readonly #begunBy: Context | undefined;
  #stoppedBy: Context | undefined;
  #span: Span | undefined;

  constructor(of: { backendId: string; programName: string }, action?: SpawnAction) {
    this.#attributes = {
      'leasehold.backend.id': of.backendId,
      'leasehold.program': of.programName,
    };
    this.#begunBy = contextOf(action);
    if (this.#begunBy !== undefined) this.#begin('drone.spawn', this.#begunBy, {});
  }

  /** The process runs. */
  started(): void {
    this.#end(undefined);
  }

  /** What a controller has sent to stop it. */
  asked(action: TerminateAction): void {
    this.#stoppedBy = contextOf(action);
  }

  /** The warden is asked to stop it; once more for a harder stop. */
  stopping({ mode, reason }: { readonly mode: string; readonly reason: string }): void {
    const parent = this.#stoppedBy ?? this.#begunBy;
    if (this.#span !== undefined || parent === undefined) return;
    this.#begin('drone.stop', parent, {
      'leasehold.stop.mode': mode,
      'leasehold.stop.reason': reason,
    });
  }

  /** @param problem why it was not started, if it was not. */
  ended(problem?: string): void {
    this.#end(problem);
  }

  /** Runs some work as a part of the present span, such as a report. */
  within<Result>(work: () => Result): Result {
    return this.#span === undefined ? work() : withinSpan(this.#span, work);
  }

  #begin(name: string, parent: Context, more: Attributes): void {
    const tracer = activeTracer();
    if (tracer === undefined) return;
    const attributes = { ...this.#attributes, ...more };
    this.#span = beginSpan(tracer, { name, kind: SpanKind.CONSUMER, attributes, parent });
  }

  #end(problem: string | undefined): void {
    if (this.#span === undefined) return;
    endSpan(this.#span, problem === undefined ? undefined : new NotStarted(problem));
    this.#span = undefined;
  }
}

/** A backend that never ran, with its reason as the code. */
class NotStarted extends Error {
  override readonly name = 'NotStarted';
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

function contextOf(action: SpawnAction | TerminateAction | undefined): Context | undefined {
  const trace = activeTracer() === undefined ? undefined : action?.trace;
  return trace === undefined ? undefined : contextFrom(trace);
}
