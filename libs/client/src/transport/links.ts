/** Links that refuse a call before anything is sent. */
import { type OperationLink, TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable, tap } from '@trpc/server/observable';
import type { AppRouter } from '@leasehold/api';
import { ERROR_CODES, type ErrorCode, isPeriodicCall, LeaseError } from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { type ConnectionFailures, failuresText } from '@leasehold/service-kit/controllers';
import {
  activeTracer,
  beginSpan,
  carrierOf,
  endSpan,
  isWithinSpan,
  SpanKind,
  type TraceCarrier,
} from '@leasehold/service-kit/tracing';
import { onAbort } from '@leasehold/service-kit/signals';
import { plainInput } from '../inputs.ts';
import { OutcomeUnknownError, unreachableBy, type UnreachableError } from './errors.ts';

/** How long a call waits for a connection to a controller that has answered before. */
const CONNECTION_MS_MAX = 10_000;

interface ReachabilityOptions {
  readonly clock: TickingClock;
  readonly transport: 'ws' | 'http';
  /** Why there is no connection. */
  readonly failures: () => ConnectionFailures;
  /** How long a call may wait for the first connection. Milliseconds. */
  readonly connectMs: number;
  /** The addresses, for messages. */
  readonly url: string;
}

/** Whether there was a connection: a call that was never sent has no unknown outcome. */
export class Reachability {
  readonly #clock: TickingClock;
  readonly #hasConnection: boolean;
  readonly #failures: () => ConnectionFailures;
  readonly #connectMs: number;
  readonly #url: string;
  #hasEverAnswered = false;
  #isOpen = false;
  #closedAtMs = -Infinity;

  constructor({ clock, transport, failures, connectMs, url }: ReachabilityOptions) {
    this.#clock = clock;
    this.#failures = failures;
    this.#hasConnection = transport === 'ws';
    this.#connectMs = connectMs;
    this.#url = url;
  }

  changed(state: 'open' | 'closed'): void {
    if (this.#isOpen && state === 'closed') this.#closedAtMs = this.#clock.nowMs();
    this.#isOpen = state === 'open';
    if (this.#isOpen) this.answered();
  }

  /** Somebody is there. */
  answered(): void {
    this.#hasEverAnswered = true;
  }

  /** How long a call may wait for a connection: not for long where nobody was ever there. Milliseconds. */
  patienceMs(): number {
    return this.#hasEverAnswered ? CONNECTION_MS_MAX : this.#connectMs;
  }

  /** Whether a call that began then, and failed, is not tried again, because nobody was ever there. */
  isHopeless(momentMs: number): boolean {
    // A third: the pause before the next try, and that try, take time too.
    const isEarly = this.#clock.nowMs() - momentMs < this.#connectMs / 3;
    return !this.#hasEverAnswered && !isEarly;
  }

  /**
   * Why nothing that was sent since that moment can have arrived; undefined if it can. Over HTTP always
   * undefined: the error of each call shows whether it was sent.
   */
  unreachableSince(momentMs: number): UnreachableError | undefined {
    const isReachable = !this.#hasConnection || this.#isOpen || this.#closedAtMs >= momentMs;
    return isReachable ? undefined : unreachableBy(this.#failures(), this.#url);
  }

  /** Makes a call. One that was never sent has no unknown outcome, and says why. */
  async explain<T>(call: () => Promise<T>): Promise<T> {
    const beganAtMs = this.#clock.nowMs();
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error;
      throw this.unreachableSince(beganAtMs) ?? error;
    }
  }
}

/** Once `closed` aborts, refuses every call with `client.closed`, and ends those in progress with it. */
export function closedLink(closed: AbortSignal): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) =>
      observable((observer) => {
        const unfollow = onAbort(closed, () =>
          observer.error(TRPCClientError.from(new LeaseError('client.closed'))),
        );
        if (closed.aborted) return unfollow;
        const subscription = next(op).subscribe(observer);
        return () => {
          unfollow();
          subscription.unsubscribe();
        };
      });
}

/**
 * Refuses an input that cannot be written as JSON. It would fail only when it is sent, together with all that
 * is sent at the same time, and look like a lost answer.
 */
export function plainInputLink(): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) => {
      const found = plainInput(op.input, 'input');
      if (found === undefined) return next(op);
      const invalid = new LeaseError('request.invalid', `${found.field} ${found.problem}`, {
        details: { field: found.field },
      });
      return observable((observer) => observer.error(TRPCClientError.from(invalid)));
    };
}

/** What tRPC throws when a connection closes between a call and its sending. */
const NOT_OPEN = 'Active connection is not open';

/**
 * The calls that wait for a connection. One that has waited too long fails; nothing of it was sent. So does one
 * whose connection is refused permanently as soon as it is open, which may be before the call is sent: it would wait
 * for the next connection, and never learn why.
 */
export class WaitingCalls {
  readonly #patienceMs: (() => number) | undefined;
  readonly #failures: ConnectionFailures;
  readonly #url: string;
  /** End the patience of those that wait. */
  readonly #stops = new Set<() => void>();
  /** End those that have waited, and have no answer. */
  readonly #refusals = new Set<(code: ErrorCode) => void>();
  #isOpen = false;

  constructor(
    patienceMs: (() => number) | undefined,
    failures: ConnectionFailures,
    urls: readonly string[],
  ) {
    this.#patienceMs = patienceMs;
    this.#failures = failures;
    this.#url = urls.join(', ');
  }

  changed(state: 'open' | 'closed'): void {
    this.#isOpen = state === 'open';
    if (!this.#isOpen) return;
    for (const stop of this.#stops) stop();
  }

  /** A connection was closed with this reason. */
  refused(reason: string): void {
    if (!(reason in ERROR_CODES) || ERROR_CODES[reason as ErrorCode].retryable) return;
    for (const refuse of this.#refusals) refuse(reason as ErrorCode);
  }

  link(): TRPCLink<AppRouter> {
    return () =>
      ({ op, next }) =>
        observable((observer) => {
          const fail = (error: LeaseError): void => {
            leave();
            observer.error(TRPCClientError.from(error));
          };
          const refuse = (code: ErrorCode): void => fail(new LeaseError(code));
          const tooLong = (): void => {
            const { message } = unreachableBy(this.#failures, this.#url);
            fail(new LeaseError('request.unreachable', message));
          };
          let stop: (() => void) | undefined;
          const wait = (): void => {
            stop ??= this.#limit(tooLong);
            // A subscription goes on over the next connection.
            if (op.type !== 'subscription') this.#refusals.add(refuse);
          };
          const leave = (): void => {
            stop?.();
            this.#refusals.delete(refuse);
          };
          let isLeft = false;
          let subscription: { unsubscribe(): void } | undefined;
          const ask = (): void => {
            subscription = next(op).subscribe({
              ...observer,
              error(error) {
                if (error.message === NOT_OPEN && !isLeft) {
                  wait();
                  ask();
                  return;
                }
                leave();
                observer.error(error);
              },
              complete() {
                leave();
                observer.complete();
              },
            });
          };
          if (!this.#isOpen) wait();
          ask();
          return () => {
            isLeft = true;
            leave();
            subscription?.unsubscribe();
          };
        });
  }

  /** Calls this when the patience for a connection is over. What is returned ends the waiting. */
  #limit(over: () => void): () => void {
    const patienceMs = this.#patienceMs?.() ?? Infinity;
    if (patienceMs === Infinity) return () => undefined;
    const timer = setTimeout(over, patienceMs);
    const stop = (): void => {
      clearTimeout(timer);
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    return stop;
  }
}

/**
 * Limits how long a query or a mutation may take, from its start to its answer, including the time
 * without a connection. Subscriptions are not limited. The error has the reasons if nothing can be
 * connected to.
 */
export function deadlineLink(timeoutMs: number, failures: ConnectionFailures): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) =>
      observable((observer) => {
        const timer =
          op.type === 'subscription'
            ? undefined
            : setTimeout(() => {
                observer.error(TRPCClientError.from(noAnswerWithin(timeoutMs, failures)));
              }, timeoutMs);
        const stop = (): void => clearTimeout(timer);
        const subscription = next(op)
          .pipe(tap({ error: stop, complete: stop }))
          .subscribe(observer);
        return () => {
          stop();
          subscription.unsubscribe();
        };
      });
}

/** What a call gets that has no answer in time, with the reasons if nothing can be connected to. */
export function noAnswerWithin(timeoutMs: number, failures: ConnectionFailures): LeaseError {
  const why = failures.size === 0 ? '' : `\n${failuresText(failures)}`;
  return new LeaseError(
    'request.outcome_unknown',
    `No answer within ${String(timeoutMs)} ms; the outcome is unknown.${why}`,
  );
}

/** Calls of holders: their answers report how far the database has come, and later calls repeat it. */
const PATHS: ReadonlySet<string> = new Set([
  'drones.session',
  'drones.heartbeat',
  'keys.renew',
  'leases.acquire',
  'leases.acquireMany',
  'leases.acquireAll',
  'leases.heartbeat',
  'environments.acquire',
  'environments.tryAcquire',
  'environments.heartbeat',
]);

/**
 * What controllers have reported about their database, which is sent back to them, so that a controller whose
 * database was restored from a copy learns of it from holders, even when it has forgotten it
 * itself. The report is opaque, and of no use to others.
 */
export class Witnesses {
  /** The newest report, by datacenter; the controller's own is `''`. */
  readonly #newest = new Map<string, string>();

  /** What a call has to send; undefined for a call that sends none. */
  of(path: string, datacenter: string | undefined): string | undefined {
    return PATHS.has(path) ? this.#newest.get(datacenter ?? '') : undefined;
  }

  /** Remembers the report in the answer to a call. */
  note(
    { path, datacenter }: { readonly path: string; readonly datacenter: string | undefined },
    data: unknown,
  ): void {
    if (!PATHS.has(path)) return;
    const told = toldIn(data);
    if (told !== undefined) this.#newest.set(datacenter ?? '', told);
  }
}

/** Sends back the reports of {@link Witnesses}. */
export function witnessLink(witnesses: Witnesses): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) => {
      if (!PATHS.has(op.path)) return next(op);
      const input = (op.input ?? {}) as { readonly datacenter?: string };
      const call = { path: op.path, datacenter: input.datacenter };
      const witness = witnesses.of(call.path, call.datacenter);
      return next({ ...op, input: witness === undefined ? input : { ...input, witness } }).pipe(
        tap({
          next({ result }) {
            if ('data' in result) witnesses.note(call, result.data);
          },
        }),
      );
    };
}

function toldIn(data: unknown): string | undefined {
  const isObject = typeof data === 'object' && data !== null && 'witness' in data;
  return isObject && typeof data.witness === 'string' ? data.witness : undefined;
}

// A span for each call, in services that use OpenTelemetry; what it belongs to travels with the call.

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
