import {
  createControllerClient,
  leaseholdErrorOf,
  type ControllerClient,
  type ControllerClientOptions,
} from '@leasehold/client';
import { SessionSuperseded, type ControllerLink, type SessionListener } from './controller-link.ts';
import type * as wire from './wire.ts';

/**
 * No answer is waited for any longer than this; calls about a grant may have less time by its
 * ladder. Renewals have shorter tries of their own, and an answer that comes after its try still
 * counts.
 */
const CALL_TIMEOUT_MS = 5_000;
/** Together well inside the ladder, so that a silent network costs one try and not the key. */
const PING_MS = 500;
const PONG_TIMEOUT_MS = 500;
const RECONNECT_MS_MAX = 1_000;

/** A {@link ControllerLink} over tRPC and WebSocket, to one of several controllers at a time. */
export class TrpcControllerLink implements ControllerLink {
  readonly #client: ControllerClient;

  constructor(options: Pick<ControllerClientOptions, 'url' | 'token' | 'random' | 'onConnection'>) {
    this.#client = createControllerClient({
      ...options,
      transport: 'ws',
      callTimeoutMs: CALL_TIMEOUT_MS,
      pingMs: PING_MS,
      pongTimeoutMs: PONG_TIMEOUT_MS,
      reconnectMsMax: RECONNECT_MS_MAX,
    });
  }

  follow(input: wire.SessionInput, listener: SessionListener): () => void {
    const subscription = this.#client.api.drones.session.subscribe(input, {
      onData: (message) => listener.message(message),
      onError: (error) => listener.ended(error),
      onComplete: () => listener.ended(undefined),
    });
    return () => subscription.unsubscribe();
  }

  async heartbeat(input: wire.HeartbeatInput, timeoutMs: number): Promise<void> {
    const signal = AbortSignal.timeout(timeoutMs);
    await answerOf(this.#client.api.drones.heartbeat.mutate(input, { signal }));
  }

  async goodbye(input: wire.GoodbyeInput): Promise<void> {
    await answerOf(this.#client.api.drones.goodbye.mutate(input));
  }

  async acknowledge(input: wire.AckInput): Promise<void> {
    await answerOf(this.#client.api.drones.ack.mutate(input));
  }

  async answer(input: wire.AnswerInput): Promise<void> {
    await answerOf(this.#client.api.drones.answer.mutate(input));
  }

  async report(
    input: wire.ReportInput,
    timeoutMs: number,
  ): Promise<'recorded' | 'ignored' | 'kill'> {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const { outcome } = await answerOf(
        this.#client.api.backends.report.mutate(input, { signal }),
      );
      return outcome;
    } catch (error) {
      // The controllers have forgotten it; sending the report again will not help.
      if (leaseholdErrorOf(error)?.code === 'backend.not_found') return 'ignored';
      // Its address must not be given to anybody, so it must not go on.
      if (leaseholdErrorOf(error)?.code === 'drone.not_allowed') return 'kill';
      throw error;
    }
  }

  async renew(input: wire.RenewInput, timeoutMs: number): Promise<readonly wire.RenewResult[]> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { results } = await answerOf(this.#client.api.keys.renew.mutate(input, { signal }));
    return results;
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** @throws {SessionSuperseded} when that is what was answered. */
async function answerOf<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (leaseholdErrorOf(error)?.code !== 'session.superseded') throw error;
    throw new SessionSuperseded('a newer session of this drone exists', { cause: error });
  }
}
