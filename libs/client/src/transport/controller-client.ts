/**
 * The typed connection to a controller. Over WebSocket it reconnects with backoff, resumes its
 * subscriptions, and detects a silent peer whose socket looks open. Calls without a connection wait for
 * one, up to their time limit. Over HTTP each call is independent and fails at once if nothing answers.
 * There are no subscriptions over HTTP.
 *
 * With several controllers the client stays with one for as long as it answers, and then tries the next.
 */
import type { AppRouter } from '@leasehold/api';
import {
  controllerUrlsOf,
  controllerUrlsProblem,
  createControllerFetch,
  type ConnectionFailures,
} from '@leasehold/service-kit/controllers';
import {
  createTRPCClient,
  createWSClient,
  httpLink,
  wsLink,
  type TRPCClient,
  type TRPCLink,
} from '@trpc/client';
import { setTimeout } from 'node:timers/promises';
import { sharedController } from '../signals.ts';
import { LeaseholdCallError } from './call-errors.ts';
import { deadlineLink } from './deadline-link.ts';
import { closedLink, WaitingCalls } from './refusing-links.ts';
import { shownErrorsLink } from './shown-errors.ts';
import { sendPromptly } from './send-promptly.ts';
import { createSockets } from './sockets.ts';
import { traceHeaders, tracingEncoder, tracingLink } from './tracing-link.ts';
import { witnessLink } from './witness-link.ts';

/** Every procedure of the contract, typed. */
export type ControllerApi = TRPCClient<AppRouter>;

export interface ControllerClientOptions {
  /**
   * `http://host:port` of a controller or of a load balancer. An array, or a list with commas, names
   * several controllers of one database.
   */
  readonly url: string | readonly string[];
  /** `lh_…` */
  readonly token: string;
  readonly transport: 'ws' | 'http';
  /** A query or mutation without an answer by then fails with `request.outcome_unknown`. */
  readonly callTimeoutMs?: number | undefined;
  /** How long the peer may be silent before the client pings it (`ws`). */
  readonly pingMs?: number | undefined;
  /** How long the answer to a ping may take before the connection counts as dead (`ws`). */
  readonly pongTimeoutMs?: number | undefined;
  /** The longest pause between two tries to connect (`ws`). */
  readonly reconnectMsMax?: number | undefined;
  /** A number in `[0, 1)`, for the jitter of reconnects. */
  readonly random?: (() => number) | undefined;
  /** Called when a connection opens, also one that replaces another, and when the last has closed. */
  readonly onConnection?: ((state: 'open' | 'closed') => void) | undefined;
  /** Called when an answer of a controller begins to arrive (`http`). */
  readonly onAnswer?: (() => void) | undefined;
  /** How long a call may wait for a connection (`ws`); unless given, as long as for its answer. */
  readonly connectionMs?: (() => number) | undefined;
}

export interface ControllerClient {
  readonly api: ControllerApi;
  /** The same procedures over the same connection, with the given links before it. */
  apiWith(links: readonly TRPCLink<AppRouter>[]): ControllerApi;
  /** Why each address cannot be connected to, since a connection was last open (`ws`). */
  failures(): ConnectionFailures;
  /** Closes the connection. Calls in progress and later ones fail with `client.closed`. */
  close(): Promise<void>;
}

const TRPC_PATH = '/trpc';
/** Longer than the longest `waitMs` of the contract, so that a call that waits is not cut off. */
const CALL_TIMEOUT_MS = 130_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 2_000;
/** More than any bound needs, without an overflow. */
const DOUBLINGS_MAX = 20;
/** How long the sockets of a client that is closed may take to close. */
const END_MS_MAX = 250;
/** If there is no other controller, one that is slow for a moment deserves some patience. */
const PATIENCE = { pingMs: 1_000, pongTimeoutMs: 1_000, handshakeMs: 2_000 };
/**
 * If there are other controllers. A silent one is left after 1.5 s, including the half second that it has to close:
 * a lease of 5 s has 2.5 s from its renewal to its holder's deadline.
 */
const PATIENCE_OF_SEVERAL = { pingMs: 500, pongTimeoutMs: 500, handshakeMs: 1_000 };

interface Deps extends ControllerClientOptions {
  readonly urls: readonly string[];
  /** The links before the connection in every call. */
  readonly own: readonly TRPCLink<AppRouter>[];
  /** Aborts when the client is closed. */
  readonly closing: AbortController;
  readonly failures: Map<string, unknown>;
}

/**
 * Makes a client; nothing is sent before the first call, but a WebSocket begins to connect.
 * @throws {LeaseholdCallError} `request.invalid` if `url` is not an address or a list of addresses.
 */
export function createControllerClient(options: ControllerClientOptions): ControllerClient {
  const problem = controllerUrlsProblem(options.url);
  if (problem !== undefined) {
    throw new LeaseholdCallError('request.invalid', { message: `url: ${problem}.` });
  }
  const failures = new Map<string, unknown>();
  const urls = controllerUrlsOf(options.url);
  const waiting = new WaitingCalls(options.connectionMs, failures, urls);
  const onConnection = (state: 'open' | 'closed'): void => {
    if (state === 'open') failures.clear();
    waiting.changed(state);
    options.onConnection?.(state);
  };
  const deadline = deadlineLink(options.callTimeoutMs ?? CALL_TIMEOUT_MS, failures);
  // Next to the connection: the others may change the input, by which a message finds its trace.
  const closing = sharedController();
  const own = [
    ...[shownErrorsLink(urls), closedLink(closing.signal), witnessLink(), deadline],
    ...(options.transport === 'ws' ? [waiting.link()] : []),
    tracingLink(),
  ];
  const deps = { ...options, onConnection, own, closing, failures, urls };
  return options.transport === 'ws' ? overWebSocket(deps) : overHttp(deps);
}

function overHttp({ urls, token, own, closing, failures, onAnswer }: Deps): ControllerClient {
  const fetchPath = createControllerFetch(urls);
  const http = httpLink<AppRouter>({
    // Only a path: the controller is chosen for each call.
    url: TRPC_PATH,
    headers: ({ op }) => ({ ...traceHeaders(op), authorization: `Bearer ${token}` }),
    fetch: async (path, init) => {
      const response = await fetchPath(String(path), init as RequestInit);
      onAnswer?.();
      return response;
    },
  });
  return clientOver({ own: [...own, http], failures }, () => {
    closing.abort();
    return Promise.resolve();
  });
}

function overWebSocket(deps: Deps): ControllerClient {
  const { urls, own, closing, failures } = deps;
  const patience = urls.length > 1 ? PATIENCE_OF_SEVERAL : PATIENCE;
  const delayOf = reconnectDelays(deps);
  const sockets = createSockets({
    handshakeMs: patience.handshakeMs,
    onConnection: deps.onConnection,
    onFailure(address, error) {
      if (!failures.has(address)) failures.set(address, error);
    },
  });
  let connectCount = 0;
  let delayMs = 0;
  const client = createWSClient({
    // Called for each new connection: the one before it has failed.
    url: async () => {
      // Paused here, and not by tRPC, whose pause would keep a process that has closed its client.
      const pauseMs = delayMs;
      delayMs = 0;
      await setTimeout(pauseMs, undefined, { signal: closing.signal });
      const url = urls[connectCount % urls.length] ?? '';
      connectCount += 1;
      return `${url}${TRPC_PATH}`.replace(/^http/u, 'ws');
    },
    connectionParams: { token: deps.token },
    experimental_encoder: tracingEncoder,
    WebSocket: sockets.WebSocket,
    keepAlive: {
      enabled: true,
      intervalMs: deps.pingMs ?? patience.pingMs,
      pongTimeoutMs: deps.pongTimeoutMs ?? patience.pongTimeoutMs,
    },
    retryDelayMs: (attemptIndex) => {
      delayMs = delayOf(attemptIndex);
      return 0;
    },
  });
  sendPromptly(client);
  const ws = wsLink<AppRouter>({ client });
  return clientOver({ own: [...own, ws], failures }, async () => {
    closing.abort();
    const closed = client.close();
    // On a dead link, or before it is open, a socket would close much later.
    const cancel = new AbortController();
    await Promise.race([closed, setTimeout(END_MS_MAX, undefined, { signal: cancel.signal })]);
    cancel.abort();
    sockets.terminate();
  });
}

function clientOver(
  { own, failures }: Pick<Deps, 'own' | 'failures'>,
  close: () => Promise<void>,
): ControllerClient {
  const apiWith = (links: readonly TRPCLink<AppRouter>[]): ControllerApi =>
    createTRPCClient<AppRouter>({ links: [...links, ...own] });
  return { api: apiWith([]), apiWith, failures: () => new Map(failures), close };
}

/**
 * Each address is tried once, after a short random delay that keeps many clients of a dead controller apart.
 * After each round there is a pause, which doubles up to a bound and is shortened at random by up to half.
 */
function reconnectDelays(deps: Deps): (attemptIndex: number) => number {
  const random = deps.random ?? Math.random;
  const boundMs = deps.reconnectMsMax ?? RECONNECT_MS_MAX;
  const { length } = deps.urls;
  return (attemptIndex) => {
    // `attemptIndex` does not count the first connection, which failed or broke.
    const triedCount = attemptIndex + 1;
    if (triedCount % length !== 0) return random() * RECONNECT_MS_MIN;
    const doublings = Math.min(triedCount / length - 1, DOUBLINGS_MAX);
    return Math.min(RECONNECT_MS_MIN * 2 ** doublings, boundMs) * (0.5 + random() / 2);
  };
}
