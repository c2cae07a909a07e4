/**
 * The typed connection to a controller. Over WebSocket it reconnects by itself with backoff, takes
 * its subscriptions along, and notices a peer that is silent although its socket looks open. Calls
 * made while there is no connection wait for one, up to their time limit. Over HTTP each call stands
 * alone, fails at once when nothing answers, and there are no subscriptions.
 */
import type { AppRouter } from '@leasehold/api';
import {
  createTRPCClient,
  createWSClient,
  httpLink,
  wsLink,
  type TRPCClient,
  type TRPCLink,
} from '@trpc/client';
import { WebSocket, type ClientOptions } from 'ws';
import { deadlineLink } from './deadline-link.ts';
import { messageParts } from './message-parts.ts';
import { witnessLink, type Witnesses } from './witness-link.ts';

/** Every procedure of the contract, typed. */
export type ControllerApi = TRPCClient<AppRouter>;

export interface ControllerClientOptions {
  /** `http://host:port` of a controller, or of what is in front of several. */
  readonly url: string;
  /** `lh_…` */
  readonly token: string;
  readonly transport: 'ws' | 'http';
  /** A query or mutation that has no answer by then fails with its outcome unknown. */
  readonly callTimeoutMs?: number | undefined;
  /** After how much silence the peer is asked for a sign of life (`ws`). */
  readonly pingMs?: number | undefined;
  /** How long it may take to give one, before the connection counts as dead (`ws`). */
  readonly pongTimeoutMs?: number | undefined;
  /** The longest pause between two tries to connect (`ws`). */
  readonly reconnectMsMax?: number | undefined;
  /** A number in `[0, 1)`, for the jitter of reconnects. */
  readonly random?: (() => number) | undefined;
  /** What controllers have told of their database; one of its own unless several clients share it. */
  readonly witnesses?: Witnesses | undefined;
  /** Told when a connection opens, also one that replaces another, and when the last has closed. */
  readonly onConnection?: ((state: 'open' | 'closed') => void) | undefined;
}

export interface ControllerClient {
  readonly api: ControllerApi;
  /** The same procedures over the same connection, with links of the caller's own before it. */
  apiWith(links: readonly TRPCLink<AppRouter>[]): ControllerApi;
  /** Closes the connection; calls under way fail. */
  close(): Promise<void>;
}

/** Longer than the longest `waitMs` of the contract, so that a call that waits is not cut off. */
const CALL_TIMEOUT_MS = 130_000;
const PING_MS = 1_000;
const PONG_TIMEOUT_MS = 1_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 2_000;
const HANDSHAKE_MS_MAX = 2_000;
const CLOSE_MS_MAX = 500;

/** Makes a client; nothing is sent before the first call, but a WebSocket begins to connect. */
export function createControllerClient(options: ControllerClientOptions): ControllerClient {
  const links = [
    witnessLink(options.witnesses ?? new Map<string, string>()),
    deadlineLink(options.callTimeoutMs ?? CALL_TIMEOUT_MS),
  ];
  return options.transport === 'ws' ? overWebSocket(options, links) : overHttp(options, links);
}

function overHttp(
  options: ControllerClientOptions,
  own: readonly TRPCLink<AppRouter>[],
): ControllerClient {
  const headers = { authorization: `Bearer ${options.token}` };
  const http = httpLink<AppRouter>({ url: trpcUrl(options.url), headers });
  const apiWith = (links: readonly TRPCLink<AppRouter>[]): ControllerApi =>
    createTRPCClient<AppRouter>({ links: [...links, ...own, http] });
  return { api: apiWith([]), apiWith, close: () => Promise.resolve() };
}

function overWebSocket(
  options: ControllerClientOptions,
  own: readonly TRPCLink<AppRouter>[],
): ControllerClient {
  const client = createWSClient({
    url: trpcUrl(options.url).replace(/^http/u, 'ws'),
    connectionParams: { token: options.token },
    WebSocket: countedSockets(options.onConnection) as unknown as typeof globalThis.WebSocket,
    keepAlive: {
      enabled: true,
      intervalMs: options.pingMs ?? PING_MS,
      pongTimeoutMs: options.pongTimeoutMs ?? PONG_TIMEOUT_MS,
    },
    retryDelayMs: reconnectDelays(options),
  });
  const ws = wsLink<AppRouter>({ client });
  const apiWith = (links: readonly TRPCLink<AppRouter>[]): ControllerApi =>
    createTRPCClient<AppRouter>({ links: [...links, ...own, ws] });
  return { api: apiWith([]), apiWith, close: () => client.close() };
}

const QUICK_CLOSING: ClientOptions & { closeTimeout: number } = {
  handshakeTimeout: HANDSHAKE_MS_MAX,
  closeTimeout: CLOSE_MS_MAX,
  perMessageDeflate: false,
};

/**
 * A socket that does not trust its peer: on a dead link a close handshake is never answered, and
 * would hold up the next connection for half a minute. What tRPC gathers into one message, all calls
 * of one turn of the event loop, goes in parts where a controller would refuse the whole.
 */
class QuickClosingWebSocket extends WebSocket {
  constructor(address: string | URL) {
    super(address, QUICK_CLOSING);
  }

  override send(data: string): void {
    for (const part of messageParts(data)) super.send(part);
  }
}

/**
 * Sockets of one client that tell of their opening, and of the closing of the last. When a connection
 * is replaced, the new one opens before the old one has closed: told as they come, the two would end
 * in `closed`.
 */
function countedSockets(
  onConnection: ControllerClientOptions['onConnection'],
): typeof QuickClosingWebSocket {
  let openCount = 0;
  return class extends QuickClosingWebSocket {
    constructor(address: string | URL) {
      super(address);
      this.once('open', () => {
        openCount += 1;
        onConnection?.('open');
        this.once('close', () => {
          openCount -= 1;
          if (openCount === 0) onConnection?.('closed');
        });
      });
    }
  };
}

/** At once, then doubling up to a bound, each anywhere in the upper half of its range. */
function reconnectDelays(options: ControllerClientOptions): (attemptIndex: number) => number {
  const random = options.random ?? Math.random;
  const boundMs = options.reconnectMsMax ?? RECONNECT_MS_MAX;
  return (attemptIndex) => {
    const wholeMs = Math.min(RECONNECT_MS_MIN * 2 ** Math.min(attemptIndex, 20), boundMs);
    return wholeMs * (0.5 + random() / 2);
  };
}

function trpcUrl(url: string): string {
  return `${url.replace(/\/+$/u, '')}/trpc`;
}
