/** Tokens of people who reach a key from a browser, through a gateway. */
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server';
import type { AppRouter } from '@leasehold/api';
import { currentContext } from './context/work-context.ts';
import { assertInput, cancelShape, gatewayRevokeShape, gatewaySignShape } from './inputs.ts';
import { untilAnswered } from './lease/calls.ts';
import type { Machine } from './machine.ts';
import { linkSignals } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import type { Reachability } from './transport/links.ts';

type Inputs = inferRouterInputs<AppRouter>['gateway'];
type Outputs = inferRouterOutputs<AppRouter>['gateway'];

export type GatewaySignRequest = Inputs['sign'];
export type GatewayRevokeRequest = Inputs['revoke'];
export type SignedGatewayUrl = Outputs['sign'];

interface Cancel {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Every method throws {@link LeaseholdCallError} with a code of the registry, `UnreachableError`,
 * `OutcomeUnknownError`, or the reason of the signal.
 */
export interface Gateway {
  /**
   * Makes a token with which a user reaches a key, and the address that opens it. The key need not have a backend.
   * {@link Keys.connect} with `access` does both at once. A request whose answer is lost is sent again: each makes a
   * token of its own.
   * @throws `gateway.not_configured`; `key.unheld` with `grantOnly`; `spawn.not_allowed`.
   */
  sign(request: GatewaySignRequest, options?: Cancel): Promise<SignedGatewayUrl>;
  /**
   * Refuses the tokens that were made until now and have all that is given: of a user, of a key, of a grant. Gateways
   * know of it within a second, and close the connections that were opened with them.
   * @throws `gateway.too_many_revocations`.
   */
  revoke(request: GatewayRevokeRequest, options?: Cancel): Promise<Outputs['revoke']>;
}

export interface GatewayDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  /** How long to wait for an answer, retries included. Milliseconds. */
  readonly answerMs: number;
  readonly reachability: Pick<Reachability, 'explain' | 'isHopeless'>;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
}

export function createGateway({
  api,
  machine,
  answerMs,
  reachability,
  closing,
}: GatewayDeps): Gateway {
  async function ask<T>(
    { signal: outer }: Cancel,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const untilMs = machine.clock.nowMs() + answerMs;
    const isHopeless = (momentMs: number): boolean => reachability.isHopeless(momentMs);
    using linked = linkSignals([outer, currentContext()?.signal, closing]);
    const bounds = { untilMs, tryMs: answerMs, signal: linked.signal, isHopeless };
    return await reachability.explain(() =>
      untilAnswered(machine, bounds, (ending) => call(ending.signal)),
    );
  }

  return {
    sign: async (request, options = {}) => {
      assertInput(gatewaySignShape, request, '');
      assertInput(cancelShape, options, '');
      return ask(options, (signal) => api.gateway.sign.mutate(request, { signal }));
    },
    revoke: async (request, options = {}) => {
      assertInput(gatewayRevokeShape, request, '');
      assertInput(cancelShape, options, '');
      return ask(options, (signal) => api.gateway.revoke.mutate(request, { signal }));
    },
  };
}
