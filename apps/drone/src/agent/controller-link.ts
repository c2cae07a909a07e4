import type { DroneMessage } from '@leasehold/api';
import type {
  ackInputSchema,
  answerInputSchema,
  goodbyeInputSchema,
  heartbeatInputSchema,
  keyRenewInputSchema,
  reportInputSchema,
  sessionInputSchema,
} from '@leasehold/api/contract';
import {
  createControllerClient,
  leaseholdErrorOf,
  type ControllerApi,
  type ControllerClient,
  type ControllerClientOptions,
} from '@leasehold/client';
import type { z } from 'zod';

/**
 * The agent's connection to a controller. A call fails when its answer has not come in a bounded time;
 * whether it was carried out is then unknown, and every call of a drone may be sent again.
 */
export interface ControllerLink {
  /**
   * Follows a session until the returned function is called; a message or an end that was under way
   * may still arrive then. The connection is reopened automatically; each time, a new session begins
   * with a message of its own.
   */
  follow(input: SessionInput, listener: SessionListener): () => void;
  /**
   * Given up after `timeoutMs`, and not sent later than that: a reading of the clock that waited
   * for a connection would be taken for a fresh one, and what is counted from it has passed.
   */
  heartbeat(input: HeartbeatInput, timeoutMs: number): Promise<HeartbeatAnswer>;
  /** The drone stops. */
  goodbye(input: GoodbyeInput): Promise<void>;
  acknowledge(input: AckInput): Promise<void>;
  /** Answers a question of the session. */
  answer(input: AnswerInput): Promise<void>;
  /** Given up after `timeoutMs`, if not before. */
  report(input: ReportInput, timeoutMs: number): Promise<ReportOutcome>;
  /** One answer per renewal, each naming its lease. Given up after `timeoutMs`, if not before. */
  renew(input: RenewInput, timeoutMs: number): Promise<readonly RenewResult[]>;
  close(): Promise<void>;
}

/**
 * `kill`: it is over as far as the database is concerned. `not_allowed`: the drone's token does not allow its address,
 * which must not be given to anybody.
 */
export type ReportOutcome = 'recorded' | 'ignored' | 'kill' | 'not_allowed';

export interface HeartbeatAnswer {
  /** Whether the drone is given no more backends. */
  readonly isDraining: boolean;
}

export interface SessionListener {
  message(message: DroneMessage): void;
  /** The controller ended the session or refused it; the subscription is over. */
  ended(error: unknown): void;
}

/** A newer session of this drone exists: what was sent changed nothing. */
export class SessionSuperseded extends Error {
  override readonly name = 'SessionSuperseded';
}

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

  follow(input: SessionInput, listener: SessionListener): () => void {
    const subscription = this.#client.api.drones.session.subscribe(input, {
      onData: (message) => listener.message(message),
      onError: (error) => listener.ended(refusalOf(error) ?? error),
      onComplete: () => listener.ended(undefined),
    });
    return () => subscription.unsubscribe();
  }

  async heartbeat(input: HeartbeatInput, timeoutMs: number): Promise<HeartbeatAnswer> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { draining } = await answerOf(
      this.#client.api.drones.heartbeat.mutate(input, { signal }),
    );
    return { isDraining: draining };
  }

  async goodbye(input: GoodbyeInput): Promise<void> {
    await answerOf(this.#client.api.drones.goodbye.mutate(input));
  }

  async acknowledge(input: AckInput): Promise<void> {
    await answerOf(this.#client.api.drones.ack.mutate(input));
  }

  async answer(input: AnswerInput): Promise<void> {
    await answerOf(this.#client.api.drones.answer.mutate(input));
  }

  async report(input: ReportInput, timeoutMs: number): Promise<ReportOutcome> {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const { outcome } = await answerOf(
        this.#client.api.backends.report.mutate(input, { signal }),
      );
      return outcome;
    } catch (error) {
      // The controllers have forgotten it; sending the report again will not help.
      if (leaseholdErrorOf(error)?.code === 'backend.not_found') return 'ignored';
      if (leaseholdErrorOf(error)?.code === 'drone.not_allowed') return 'not_allowed';
      throw error;
    }
  }

  async renew(input: RenewInput, timeoutMs: number): Promise<readonly RenewResult[]> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { results } = await answerOf(this.#client.api.keys.renew.mutate(input, { signal }));
    return results;
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

function refusalOf(error: unknown): SessionSuperseded | undefined {
  const known = leaseholdErrorOf(error);
  if (known?.code !== 'session.superseded') return undefined;
  return new SessionSuperseded(known.message, { cause: error });
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

/** What the agent sends. */
export type SessionInput = z.input<typeof sessionInputSchema>;
export type HeartbeatInput = z.input<typeof heartbeatInputSchema>;
export type GoodbyeInput = z.input<typeof goodbyeInputSchema>;
export type AnswerInput = z.input<typeof answerInputSchema>;
export type AckInput = z.input<typeof ackInputSchema>;
export type RenewInput = z.input<typeof keyRenewInputSchema>;
export type ReportInput = z.input<typeof reportInputSchema>;

/** What it is answered. */
export type RenewResult = Awaited<
  ReturnType<ControllerApi['keys']['renew']['mutate']>
>['results'][number];
