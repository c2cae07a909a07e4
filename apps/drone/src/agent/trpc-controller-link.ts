import { createControllerClient, leaseholdErrorOf, type ControllerClient } from '@leasehold/client';
import { SessionSuperseded, type ControllerLink, type SessionListener } from './controller-link.ts';
import type {
  AckInput,
  HeartbeatInput,
  RenewInput,
  RenewResult,
  ReportInput,
  SessionInput,
} from './wire.ts';

/**
 * After this an answer is not waited for any longer; what concerns a grant may have a shorter time by
 * its ladder. Renewals have shorter tries of their own, and an answer that comes after its try still
 * counts.
 */
const CALL_TIMEOUT_MS = 5_000;
/** Together well inside the ladder, so that a silent network costs one try and not the key. */
const PING_MS = 500;
const PONG_TIMEOUT_MS = 500;
const RECONNECT_MS_MAX = 1_000;
/**
 * After so long without a connection the next of several controllers is tried: time for one try to
 * connect again, and a third of the time that the `fast` ladder has from renewal to soft.
 */
const ROTATE_AFTER_MS = 300;

export interface TrpcControllerLinkOptions {
  readonly urls: readonly string[];
  readonly token: string;
  readonly random: () => number;
  readonly onConnection: (state: 'open' | 'closed') => void;
}

/** A session that goes along when the controller is changed. */
interface Follower {
  readonly input: SessionInput;
  readonly listener: SessionListener;
  unsubscribe(): void;
}

/** A {@link ControllerLink} over tRPC and WebSocket, to one of several controllers at a time. */
export class TrpcControllerLink implements ControllerLink {
  readonly #options: TrpcControllerLinkOptions;
  readonly #followers = new Set<Follower>();
  /** What controllers have told of their database: every one of them is told it again. */
  readonly #witnesses = new Map<string, string>();
  #urlIndex = 0;
  #client: ControllerClient;
  #rotation: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: TrpcControllerLinkOptions) {
    this.#options = options;
    this.#client = this.#connect();
  }

  follow(input: SessionInput, listener: SessionListener): () => void {
    const follower = { input, listener, unsubscribe: () => undefined };
    this.#followers.add(follower);
    this.#subscribe(follower);
    return () => {
      this.#followers.delete(follower);
      follower.unsubscribe();
    };
  }

  async heartbeat(input: HeartbeatInput, timeoutMs: number): Promise<void> {
    const signal = AbortSignal.timeout(timeoutMs);
    await answerOf(this.#client.api.drones.heartbeat.mutate(input, { signal }));
  }

  async acknowledge(input: AckInput): Promise<void> {
    await answerOf(this.#client.api.drones.ack.mutate(input));
  }

  async report(input: ReportInput, timeoutMs: number): Promise<'recorded' | 'ignored' | 'kill'> {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const { outcome } = await answerOf(
        this.#client.api.backends.report.mutate(input, { signal }),
      );
      return outcome;
    } catch (error) {
      // The controllers have forgotten it; saying so again will not help.
      if (leaseholdErrorOf(error)?.code === 'backend.not_found') return 'ignored';
      throw error;
    }
  }

  async renew(input: RenewInput, timeoutMs: number): Promise<readonly RenewResult[]> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { results } = await answerOf(this.#client.api.keys.renew.mutate(input, { signal }));
    return results;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#rotation);
    await this.#client.close();
  }

  #connect(): ControllerClient {
    const { urls, token, random, onConnection } = this.#options;
    const ownIndex = this.#urlIndex;
    return createControllerClient({
      url: urls[this.#urlIndex % urls.length] ?? '',
      token,
      transport: 'ws',
      witnesses: this.#witnesses,
      callTimeoutMs: CALL_TIMEOUT_MS,
      pingMs: PING_MS,
      pongTimeoutMs: PONG_TIMEOUT_MS,
      reconnectMsMax: RECONNECT_MS_MAX,
      random,
      onConnection: (state) => {
        // The last words of a connection that was given up say nothing of the present one.
        if (ownIndex !== this.#urlIndex) return;
        onConnection(state);
        this.#rotateUnlessOpen(state);
      },
    });
  }

  #rotateUnlessOpen(state: 'open' | 'closed'): void {
    if (state === 'open') {
      clearTimeout(this.#rotation);
      this.#rotation = undefined;
    } else if (!this.#isClosed && this.#options.urls.length > 1) {
      // Counted from the first of several failures in a row.
      this.#rotation ??= setTimeout(() => {
        this.#rotate();
      }, ROTATE_AFTER_MS);
    }
  }

  #rotate(): void {
    this.#rotation = undefined;
    for (const follower of this.#followers) follower.unsubscribe();
    void this.#client.close();
    this.#urlIndex += 1;
    this.#client = this.#connect();
    for (const follower of this.#followers) this.#subscribe(follower);
  }

  #subscribe(follower: Follower): void {
    // What an unsubscribed session still says is not for its follower.
    let isSubscribed = true;
    const { input, listener } = follower;
    const subscription = this.#client.api.drones.session.subscribe(input, {
      onData: (message) => {
        if (isSubscribed) listener.message(message);
      },
      onError: (error) => {
        if (isSubscribed) listener.ended(error);
      },
      onComplete: () => {
        if (isSubscribed) listener.ended(undefined);
      },
    });
    follower.unsubscribe = () => {
      isSubscribed = false;
      subscription.unsubscribe();
    };
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
