/** Keys and backends for services: connect to what runs under a key, and follow it. */
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server';
import type { AppRouter } from '@leasehold/api';
import { LIMITS } from '@leasehold/keys-core';
import { currentContext } from './context/work-context.ts';
import { assertInput, backendId as backendIdShape, cancelShape, connectShape } from './inputs.ts';
import { keepSubscribed, untilAnswered } from './lease/calls.ts';
import type { Machine } from './machine.ts';
import { linkSignals } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import { LeaseholdCallError } from './transport/errors.ts';
import type { Reachability } from './transport/links.ts';

type Inputs = inferRouterInputs<AppRouter>;
type Outputs = inferRouterOutputs<AppRouter>;

export type ConnectRequest = Inputs['keys']['connect'];
export type ConnectedBackend = Outputs['keys']['connect'];
export type BackendState =
  Outputs['backends']['watch'] extends AsyncIterable<infer State> ? State : never;

export interface Keys {
  /**
   * Returns the backend of a key, and starts one if the request has `spawn`. If the answer is lost, the
   * client sends the request again with the same idempotency key, so that no second backend is started,
   * and with what is left of `waitMs`.
   *
   * A key lives in one datacenter, and any controller connects to it there. `spawn.datacenter` chooses it
   * for a key that has none yet, and has no effect for other keys. The answer's `datacenter` is the actual
   * one, and its `address` is in that datacenter.
   *
   * `url` is where browsers reach the key, if the controllers know a gateway. With `access` it has a token in it, for
   * one user: all who have it are that user until `urlExpiresAt`.
   * @throws {LeaseholdCallError} with a code such as `key.terminating` or `spawn.no_drone`, or
   * `gateway.not_configured` with `access`;
   * `DatacenterUnreachableError`; `ReservationStoreUnreachableError` for a key whose home is not known
   * yet; `UnreachableError`; `OutcomeUnknownError`; the reason of the signal.
   */
  connect(
    request: ConnectRequest,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<ConnectedBackend>;
}

export interface Backends {
  /**
   * All past and then all new states of a backend, each once, until it has terminated. Continues after a
   * broken connection, and after errors that pass by themselves. Ends when the loop over it ends or the signal aborts.
   * @throws {LeaseholdCallError} such as `backend.not_found`.
   */
  watch(
    backendId: string,
    options?: { readonly signal?: AbortSignal | undefined },
  ): AsyncIterable<BackendState>;
}

const WAIT_MS_DEFAULT = 10_000;

export interface KeysDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  /** How long to wait for an answer, in addition to what the controller waits. Milliseconds. */
  readonly answerMs: number;
  readonly reachability: Pick<Reachability, 'explain' | 'isHopeless'>;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
}

export function createKeys({ api, machine, answerMs, reachability, closing }: KeysDeps): Keys {
  return {
    async connect(request, options = {}) {
      assertInput(connectShape, request, '');
      assertInput(cancelShape, options, '');
      const { signal } = options;
      const input = { ...request, idempotencyKey: request.idempotencyKey ?? machine.uuid() };
      const { waitMs = WAIT_MS_DEFAULT, waitFor } = request;
      // A controller waits for the grant, and after it for readiness.
      const readyMs = waitFor === 'ready' ? LIMITS.waitMsMax : 0;
      const beganAtMs = machine.clock.nowMs();
      // In whole milliseconds, as the contract has them.
      const leftMs = (): number =>
        Math.max(0, Math.ceil(waitMs - (machine.clock.nowMs() - beganAtMs)));
      using linked = linkSignals([signal, currentContext()?.signal, closing]);
      const bounds = {
        untilMs: beganAtMs + waitMs + readyMs + answerMs,
        get tryMs(): number {
          return leftMs() + readyMs + answerMs;
        },
        signal: linked.signal,
        isHopeless: (momentMs: number): boolean => reachability.isHopeless(momentMs),
      };
      return await reachability.explain(() =>
        untilAnswered(machine, bounds, (ending) =>
          api.keys.connect.mutate({ ...input, waitMs: leftMs() }, ending),
        ),
      );
    },
  };
}

export interface BackendsDeps extends Pick<KeysDeps, 'api' | 'machine' | 'closing'> {
  readonly reachability: Pick<Reachability, 'isHopeless'>;
  readonly transport: 'ws' | 'http';
}

export function createBackends(deps: BackendsDeps): Backends {
  return {
    async *watch(backendId, options = {}) {
      assertInput(backendIdShape, backendId, 'backendId');
      assertInput(cancelShape, options, '');
      if (deps.transport === 'http') {
        const message = 'transport: must be "ws" to watch a backend: nothing is told over HTTP.';
        throw new LeaseholdCallError('request.invalid', { message });
      }
      yield* watch(deps, backendId, options);
    },
  };
}

async function* watch(
  deps: BackendsDeps,
  backendId: string,
  options: { readonly signal?: AbortSignal | undefined },
): AsyncGenerator<BackendState> {
  const states: BackendState[] = [];
  const linked = linkSignals([options.signal, deps.closing, currentContext()?.signal]);
  linked.signal?.throwIfAborted();
  let end: { readonly error?: unknown } | undefined;
  let wake = (): void => undefined;
  const finish = (how: { readonly error?: unknown }): void => {
    end ??= how;
    wake();
  };
  const leave = followStates(deps, backendId, {
    onState(state) {
      states.push(state);
      wake();
    },
    onEnd: finish,
  });
  const giveUp = (): void => finish({ error: linked.signal?.reason as unknown });
  linked.signal?.addEventListener('abort', giveUp, { once: true });
  try {
    for (;;) {
      yield* states.splice(0);
      if (states.length > 0) continue;
      if (end !== undefined) {
        if ('error' in end) throw end.error;
        return;
      }
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    linked[Symbol.dispose]();
    linked.signal?.removeEventListener('abort', giveUp);
    leave();
  }
}

/** A controller sends all states to each new subscription: known ones are left out. */
function followStates(
  { api, machine, reachability }: BackendsDeps,
  backendId: string,
  listener: {
    readonly onState: (state: BackendState) => void;
    readonly onEnd: (how: { readonly error?: unknown }) => void;
  },
): () => void {
  const known = new Set<string>();
  let isTerminated = false;
  return keepSubscribed(
    { machine, reachability },
    ({ worked, failed, ended }) =>
      api.backends.watch.subscribe(
        { backendId },
        {
          onData(state) {
            worked();
            if (known.has(state.id)) return;
            known.add(state.id);
            isTerminated ||= state.status === 'terminated';
            listener.onState(state);
          },
          onError: failed,
          onComplete() {
            if (isTerminated) listener.onEnd({});
            else ended();
          },
        },
      ),
    (error) => listener.onEnd({ error }),
  );
}
