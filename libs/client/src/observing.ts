/** Who holds a lease, an environment or a key, as it changes. */
import type { Face, SlotMode } from '@leasehold/keys-core';
import { onAbort } from '@leasehold/service-kit/signals';
import { currentContext, outsideOfWork } from './context/work-context.ts';
import { assertObserve } from './inputs.ts';
import { keepSubscribed } from './lease/calls.ts';
import type { Machine } from './machine.ts';
import { linkSignals } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import { LeaseholdCallError } from './transport/errors.ts';
import type { Reachability } from './transport/links.ts';

/** What is observed. A `Lease` is one too, unless it is of an environment. */
export interface ObservedScope {
  readonly namespace: readonly string[];
  readonly key: string;
  /** By default `lease`. A key is held by a drone, an environment as `withEnvironmentLease` holds it. */
  readonly face?: Face | undefined;
}

/**
 * Who holds it, and what the holder says of itself. Where several may hold it at once, the one that has held it longest,
 * and the others in `sharing`.
 */
export interface ObservedHolder {
  readonly holder: string;
  readonly fencingToken: string;
  readonly leaseId: string;
  /** What the holder gave to `acquire`, or to `update` since. */
  readonly metadata: unknown;
  /** When it was granted, by the database's clock. ISO-8601. */
  readonly since: string;
  /** Only where several may hold it at once, with permits or shared. */
  readonly sharing?: {
    readonly mode: SlotMode;
    /** Of all who hold it, this one included. */
    readonly holderCount: number;
    /** The first nine of the others, in the order in which they were granted. */
    readonly others: readonly OtherHolder[];
  };
}

/** Another one that holds it. `since` is ISO-8601, by the database's clock. */
export interface OtherHolder {
  readonly holder: string;
  readonly fencingToken: string;
  readonly leaseId: string;
  readonly mode: SlotMode;
  readonly since: string;
}

/** Null: nobody holds it. */
export type ObservedState = ObservedHolder | null;

/** Ends by `return()`, also while a `next()` waits. */
export type Observation = AsyncIterableIterator<ObservedState, undefined>;

/** What tells states, the present one first. It may repeat itself. */
export type ObservedSource = (
  scope: ObservedScope,
  listener: {
    readonly onState: (state: ObservedState) => void;
    readonly onError: (error: unknown) => void;
  },
) => () => void;

/** See `Leasehold.observe`. @param closing aborts when the client is closed. */
export function observe(
  source: ObservedSource,
  scope: ObservedScope,
  options: { readonly signal?: AbortSignal | undefined },
  closing: AbortSignal,
): Observation {
  assertObserve(scope, options);
  const { signal } = options;
  return new Newest(source, scope, { signal, others: [currentContext()?.signal, closing] });
}

type Result = IteratorResult<ObservedState, undefined>;

/** Keeps one state for a reader, however slow it is. Nothing is asked for before it reads. */
class Newest implements Observation {
  readonly #begin: () => () => void;
  readonly #readers: { resolve: (result: Result) => void; reject: (error: unknown) => void }[] = [];
  #stop: (() => void) | undefined;
  /** The newest state, until it is read. */
  #unread: { readonly state: ObservedState } | undefined;
  #newest: string | undefined;
  #end: { readonly error?: unknown } | undefined;

  constructor(
    source: ObservedSource,
    scope: ObservedScope,
    { signal, others }: { signal: AbortSignal | undefined; others: (AbortSignal | undefined)[] },
  ) {
    this.#begin = () => {
      const linked = linkSignals(others);
      const unfollow = [
        signal && onAbort(signal, () => this.#finish({})),
        linked.signal && onAbort(linked.signal, (error) => this.#finish({ error })),
      ];
      const leave =
        this.#end === undefined
          ? outsideOfWork(() =>
              source(scope, {
                onState: (state) => this.#tell(state),
                onError: (error) => this.#finish({ error }),
              }),
            )
          : undefined;
      return () => {
        for (const end of unfollow) end?.();
        linked[Symbol.dispose]();
        leave?.();
      };
    };
  }

  next(): Promise<Result> {
    if (this.#end === undefined && this.#stop === undefined) this.#start();
    if (this.#unread !== undefined) {
      const { state: value } = this.#unread;
      this.#unread = undefined;
      return Promise.resolve({ done: false, value });
    }
    const end = this.#end;
    if (end === undefined) {
      return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
    }
    this.#end = {};
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is the source's, or the signal's
    if ('error' in end) return Promise.reject(end.error);
    return Promise.resolve(OVER);
  }

  return(): Promise<Result> {
    this.#finish({});
    this.#end = {};
    this.#unread = undefined;
    return Promise.resolve(OVER);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #start(): void {
    const stop = this.#begin();
    // It may be over before it has begun.
    if (this.#end === undefined) this.#stop = stop;
    else stop();
  }

  #tell(state: ObservedState): void {
    if (this.#end !== undefined) return;
    const text = JSON.stringify(state);
    if (text === this.#newest) return;
    this.#newest = text;
    const reader = this.#readers.shift();
    if (reader === undefined) this.#unread = { state };
    else reader.resolve({ done: false, value: state });
  }

  #finish(end: { readonly error?: unknown }): void {
    if (this.#end !== undefined) return;
    const [first, ...others] = this.#readers.splice(0);
    this.#end = first === undefined ? end : {};
    if ('error' in end) this.#unread = undefined;
    this.#stop?.();
    if (first !== undefined && 'error' in end) first.reject(end.error);
    else first?.resolve(OVER);
    for (const reader of others) reader.resolve(OVER);
  }
}

const OVER: Result = { done: true, value: undefined };

interface ObservingDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly transport: 'ws' | 'http';
  readonly reachability: Pick<Reachability, 'isHopeless'>;
}

/** States as a controller tells them. After a lost connection it begins again, with the present state. */
export function controllerSource(deps: ObservingDeps): ObservedSource {
  const { api, machine, transport, reachability } = deps;
  return ({ namespace, key, face = 'lease' }, { onState, onError }) => {
    if (transport === 'http') {
      onError(new LeaseholdCallError('request.invalid', { message: NEEDS_WEBSOCKET }));
      return () => undefined;
    }
    return keepSubscribed(
      { machine, reachability },
      ({ worked, failed, ended }) =>
        api.events.observe.subscribe(
          { face, namespace: namespace.join('.'), name: key },
          {
            onData({ holding }) {
              worked();
              onState(holding === null ? null : { ...holding, metadata: holding.metadata });
            },
            onError: failed,
            onComplete: ended,
          },
        ),
      onError,
    );
  };
}

const NEEDS_WEBSOCKET = 'transport: must be "ws" to observe: nothing is told over HTTP.';
