/**
 * The typed connection to a controller. Over WebSocket it reconnects by itself with backoff, takes
 * its subscriptions along, and notices a peer that is silent although its socket looks open. Calls
 * made while there is no connection wait for one, up to their time limit. Over HTTP each call stands
 * alone, fails at once when nothing answers, and there are no subscriptions.
 *
 * Of several controllers one is kept as long as it answers, and the next one is tried when it does not.
 */
import type { AppRouter } from '@leasehold/api';
import {
  controllerUrlsOf,
  controllerUrlsProblem,
  createControllerFetch,
} from '@leasehold/service-kit/controllers';
import {
  createTRPCClient,
  createWSClient,
  httpLink,
  wsLink,
  type TRPCClient,
  type TRPCLink,
} from '@trpc/client';
import { WebSocket, type ClientOptions } from 'ws';
import { LeaseholdCallError } from './call-errors.ts';
import { deadlineLink } from './deadline-link.ts';
import { messageParts } from './message-parts.ts';
import { witnessLink } from './witness-link.ts';

/** Every procedure of the contract, typed. */
export type ControllerApi = TRPCClient<AppRouter>;

export interface ControllerClientOptions {
  /**
   * `http://host:port` of a controller, or of what is in front of several. An array, or a list with
   * commas, names several controllers of one database.
   */
  readonly url: string | readonly string[];
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

const TRPC_PATH = '/trpc';
/** Longer than the longest `waitMs` of the contract, so that a call that waits is not cut off. */
const CALL_TIMEOUT_MS = 130_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 2_000;
/** Beyond any bound, and without an overflow. */
const DOUBLINGS_MAX = 20;
const CLOSE_MS_MAX = 500;
/** A peer that is slow for a moment is worth some patience when there is no other one. */
const PATIENCE = { pingMs: 1_000, pongTimeoutMs: 1_000, handshakeMs: 2_000 };
/**
 * With another controller to go to. A silent one is left after 1.5 s, with {@link CLOSE_MS_MAX}: a
 * lease of 5 s has 2.5 s from its renewal to its holder's deadline.
 */
const PATIENCE_OF_SEVERAL = { pingMs: 500, pongTimeoutMs: 500, handshakeMs: 1_000 };

interface Deps extends ControllerClientOptions {
  readonly urls: readonly string[];
  /** What is before the connection in every call. */
  readonly own: readonly TRPCLink<AppRouter>[];
}

/**
 * Makes a client; nothing is sent before the first call, but a WebSocket begins to connect.
 * @throws {LeaseholdCallError} `request.invalid` when `url` is not one or several addresses.
 */
export function createControllerClient(options: ControllerClientOptions): ControllerClient {
  const problem = controllerUrlsProblem(options.url);
  if (problem !== undefined) {
    throw new LeaseholdCallError('request.invalid', { message: `url: ${problem}.` });
  }
  const own = [witnessLink(), deadlineLink(options.callTimeoutMs ?? CALL_TIMEOUT_MS)];
  const deps = { ...options, own, urls: controllerUrlsOf(options.url) };
  return options.transport === 'ws' ? overWebSocket(deps) : overHttp(deps);
}

function overHttp({ urls, token, own }: Deps): ControllerClient {
  const fetchPath = createControllerFetch(urls);
  const http = httpLink<AppRouter>({
    // A path in the place of an address: which controller is asked is decided for each call.
    url: TRPC_PATH,
    headers: { authorization: `Bearer ${token}` },
    fetch: (path, init) => fetchPath(String(path), init as RequestInit),
  });
  const apiWith = (links: readonly TRPCLink<AppRouter>[]): ControllerApi =>
    createTRPCClient<AppRouter>({ links: [...links, ...own, http] });
  return { api: apiWith([]), apiWith, close: () => Promise.resolve() };
}

function overWebSocket(deps: Deps): ControllerClient {
  const { urls, own } = deps;
  const patience = urls.length > 1 ? PATIENCE_OF_SEVERAL : PATIENCE;
  let connectCount = 0;
  const client = createWSClient({
    // Asked for each time a connection is made: one that was there before has failed.
    url: () => {
      const url = urls[connectCount % urls.length] ?? '';
      connectCount += 1;
      return `${url}${TRPC_PATH}`.replace(/^http/u, 'ws');
    },
    connectionParams: { token: deps.token },
    WebSocket: countedSockets(
      patience.handshakeMs,
      deps.onConnection,
    ) as unknown as typeof globalThis.WebSocket,
    keepAlive: {
      enabled: true,
      intervalMs: deps.pingMs ?? patience.pingMs,
      pongTimeoutMs: deps.pongTimeoutMs ?? patience.pongTimeoutMs,
    },
    retryDelayMs: reconnectDelays(deps),
  });
  const ws = wsLink<AppRouter>({ client });
  const apiWith = (links: readonly TRPCLink<AppRouter>[]): ControllerApi =>
    createTRPCClient<AppRouter>({ links: [...links, ...own, ws] });
  return { api: apiWith([]), apiWith, close: () => client.close() };
}

const QUICK_CLOSING: ClientOptions & { closeTimeout: number } = {
  closeTimeout: CLOSE_MS_MAX,
  perMessageDeflate: false,
};

/**
 * A socket that does not trust its peer: on a dead link a close handshake is never answered, and
 * would hold up the next connection for half a minute. What tRPC gathers into one message, all calls
 * of one turn of the event loop, goes in parts where a controller would refuse the whole.
 */
class QuickClosingWebSocket extends WebSocket {
  constructor(address: string | URL, handshakeMs: number) {
    super(address, { ...QUICK_CLOSING, handshakeTimeout: handshakeMs });
  }

  override send(data: string): void {
    for (const part of messageParts(data)) super.send(part);
  }
}

/**
 * Sockets of one client that tell of their opening, and of the closing of the last. When a connection
 * is replaced, the new one opens before the old one has closed: reported as they come, the two would end
 * in `closed`.
 */
function countedSockets(
  handshakeMs: number,
  onConnection: ControllerClientOptions['onConnection'],
): new (address: string | URL) => QuickClosingWebSocket {
  let openCount = 0;
  return class extends QuickClosingWebSocket {
    constructor(address: string | URL) {
      super(address, handshakeMs);
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

/**
 * Each address once, within a moment that keeps many clients of one dead controller apart; after every
 * round of all addresses a pause, which doubles up to a bound, anywhere in the upper half of its range.
 */
function reconnectDelays(deps: Deps): (attemptIndex: number) => number {
  const random = deps.random ?? Math.random;
  const boundMs = deps.reconnectMsMax ?? RECONNECT_MS_MAX;
  const { length } = deps.urls;
  return (attemptIndex) => {
    // The first connection, which failed or broke, is not counted by what asks for the delay.
    const triedCount = attemptIndex + 1;
    if (triedCount % length !== 0) return random() * RECONNECT_MS_MIN;
    const doublings = Math.min(triedCount / length - 1, DOUBLINGS_MAX);
    return Math.min(RECONNECT_MS_MIN * 2 ** doublings, boundMs) * (0.5 + random() / 2);
  };
}
