/** The gateway's connection to a controller: two procedures carry everything. */
import type {
  gatewayHandOverInputSchema,
  gatewayRouteInputSchema,
  gatewaySyncInputSchema,
} from '@leasehold/api/contract';
import {
  createControllerClient,
  isUnreachable,
  leaseholdErrorOf,
  type ControllerClientOptions,
} from '@leasehold/client';
import { LIMITS, type GatewayRoute, type GatewaySynced } from '@leasehold/keys-core';
import type { z } from 'zod';
import { Refusal, type RefusalCode } from './refusal.ts';

export type RouteInput = z.input<typeof gatewayRouteInputSchema>;
export type HandOverInput = z.input<typeof gatewayHandOverInputSchema>;
export type SyncInput = z.input<typeof gatewaySyncInputSchema>;

export interface ControllerLink {
  /**
   * Asks where the requests for a key go; may start its backend, and waits for it.
   * @throws {Refusal} when there is nothing to go to; {@link Elsewhere} when that is in another datacenter.
   * @throws {LinkDown} when the controller did not answer: it is asked again.
   */
  route(input: RouteInput): Promise<GatewayRoute>;
  /** Where the gateway of another datacenter takes a token in place of one of this. @throws {Refusal} */
  handOver(input: HandOverInput): Promise<{ readonly url: string }>;
  /** Given up after `timeoutMs`. */
  sync(input: SyncInput, timeoutMs: number): Promise<GatewaySynced>;
  close(): Promise<void>;
}

/** No controller answers; nothing is known about what was asked. */
export class LinkDown extends Error {
  override readonly name = 'LinkDown';
}

/** The key lives in another datacenter. */
export class Elsewhere extends Refusal {
  readonly datacenter: string;

  constructor(datacenter: string, cause: unknown) {
    super('gateway.elsewhere', { cause });
    this.datacenter = datacenter;
  }
}

/** Beyond what a question may wait for a backend. */
const ANSWER_MS_MAX = 5_000;
/** As those of a drone: a silent network must cost a try, and not a route. */
const PING_MS = 500;
const PONG_TIMEOUT_MS = 500;
const RECONNECT_MS_MAX = 1_000;

export function createControllerLink(
  options: Pick<ControllerClientOptions, 'url' | 'token' | 'random' | 'onConnection'>,
): ControllerLink {
  const client = createControllerClient({
    ...options,
    transport: 'ws',
    callTimeoutMs: LIMITS.waitMsMax + ANSWER_MS_MAX,
    pingMs: PING_MS,
    pongTimeoutMs: PONG_TIMEOUT_MS,
    reconnectMsMax: RECONNECT_MS_MAX,
  });
  const { gateway } = client.api;
  return {
    async route(input) {
      const timeoutMs = (input.waitMs ?? 0) + ANSWER_MS_MAX;
      try {
        return await gateway.route.mutate(input, { signal: AbortSignal.timeout(timeoutMs) });
      } catch (error) {
        throw refusalOf(error);
      }
    },
    async handOver(input) {
      try {
        return await gateway.handOver.mutate(input, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal instanceof LinkDown) throw new Refusal('gateway.cut_off', { cause: error });
        if (refusal instanceof Refusal && refusal.code === 'gateway.grant_ended') throw refusal;
        throw new Refusal('gateway.elsewhere', {
          reason: leaseholdErrorOf(error)?.code,
          cause: error,
        });
      }
    },
    sync: (input, timeoutMs) =>
      gateway.sync.mutate(input, { signal: AbortSignal.timeout(timeoutMs) }),
    close: () => client.close(),
  };
}

/** What a failed question means for a request. */
function refusalOf(cause: unknown): Error {
  const error = leaseholdErrorOf(cause);
  if (error === undefined || isUnreachable(cause)) return new LinkDown('no answer', { cause });
  const { code } = error;
  if (code === 'request.outcome_unknown' || code.startsWith('store.')) {
    return new LinkDown('no answer', { cause });
  }
  if (code === 'gateway.elsewhere') {
    return new Elsewhere(String(error.details['datacenter']), cause);
  }
  const { remainingMs } = error.details;
  return new Refusal(
    REFUSAL_CODES.get(code) ?? (error.retryable ? 'gateway.wait_over' : 'gateway.start_failed'),
    {
      reason: code,
      cause,
      ...(code === 'backend.crash_loop' && typeof remainingMs === 'number'
        ? { retryAfterSeconds: Math.ceil(remainingMs / 1_000) }
        : {}),
    },
  );
}

const REFUSAL_CODES = new Map<string, RefusalCode>([
  ['key.unheld', 'gateway.not_running'],
  ['gateway.start_over', 'gateway.not_running'],
  ['gateway.grant_over', 'gateway.grant_ended'],
  ['auth.required', 'gateway.cut_off'],
  ['auth.forbidden', 'gateway.cut_off'],
  ['backend.crash_loop', 'gateway.crash_loop'],
]);
