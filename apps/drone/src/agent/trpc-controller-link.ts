import { createControllerClient, leaseholdErrorOf, type ControllerClient } from '@leasehold/client';
import { SessionSuperseded, type ControllerLink } from './controller-link.ts';

/**
 * After this an answer is not waited for any longer. Renewals have shorter tries of their own, and
 * an answer that comes after its try still counts.
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

/** A {@link ControllerLink} over tRPC and WebSocket, to one controller at a time. */
export function createTrpcControllerLink(options: TrpcControllerLinkOptions): ControllerLink {
  let urlIndex = 0;
  let client = connect();
  let rotation: NodeJS.Timeout | undefined;
  const followers = new Set<{ start(): void; stop(): void }>();

  function connect(): ControllerClient {
    const ownIndex = urlIndex;
    return createControllerClient({
      url: options.urls[urlIndex % options.urls.length] ?? '',
      token: options.token,
      transport: 'ws',
      callTimeoutMs: CALL_TIMEOUT_MS,
      pingMs: PING_MS,
      pongTimeoutMs: PONG_TIMEOUT_MS,
      reconnectMsMax: RECONNECT_MS_MAX,
      random: options.random,
      onConnection: (state) => {
        // The last words of a connection that was given up say nothing of the present one.
        if (ownIndex !== urlIndex) return;
        options.onConnection(state);
        if (state === 'open') endRotation();
        // A try that fails closes again; the time runs from the first close.
        else if (options.urls.length > 1) rotation ??= setTimeout(rotate, ROTATE_AFTER_MS);
      },
    });
  }

  function endRotation(): void {
    clearTimeout(rotation);
    rotation = undefined;
  }

  function rotate(): void {
    endRotation();
    for (const follower of followers) follower.stop();
    void client.close();
    urlIndex += 1;
    client = connect();
    for (const follower of followers) follower.start();
  }

  return {
    follow: (input, listener) => {
      let unsubscribe = (): void => undefined;
      const follower = {
        start: () => {
          const subscription = client.api.drones.session.subscribe(input, {
            onData: (message) => {
              listener.message(message);
            },
            onError: (error) => {
              listener.ended(error);
            },
            onComplete: () => {
              listener.ended(undefined);
            },
          });
          unsubscribe = () => {
            subscription.unsubscribe();
          };
        },
        stop: () => {
          unsubscribe();
        },
      };
      followers.add(follower);
      follower.start();
      return () => {
        followers.delete(follower);
        follower.stop();
      };
    },
    heartbeat: async (input) => {
      await calling(client.api.drones.heartbeat.mutate(input));
    },
    acknowledge: async (input) => {
      await calling(client.api.drones.ack.mutate(input));
    },
    report: async (input) => {
      try {
        return (await calling(client.api.backends.report.mutate(input))).outcome;
      } catch (error) {
        // The controllers have forgotten it; saying so again will not help.
        if (leaseholdErrorOf(error)?.code === 'backend.not_found') return 'ignored';
        throw error;
      }
    },
    renew: async (input) => (await calling(client.api.keys.renew.mutate(input))).results,
    close: async () => {
      endRotation();
      await client.close();
    },
  };
}

async function calling<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (leaseholdErrorOf(error)?.code !== 'session.superseded') throw error;
    throw new SessionSuperseded('a newer session of this drone exists', { cause: error });
  }
}
