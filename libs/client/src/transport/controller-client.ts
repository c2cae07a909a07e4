/**
 * The typed connection to a controller. Over WebSocket it reconnects with backoff, resumes its
 * subscriptions, and detects a silent peer whose socket looks open. Calls without a connection wait for
 * one, up to their time limit. Over HTTP each call is independent and fails at once if nothing answers.
 * There are no subscriptions over HTTP.
 *
 * With several controllers the client stays with one for as long as it answers, and then tries the next.
 */
import { setTimeout } from 'node:timers/promises';
import type { AppRouter } from '@leasehold/api';
import { HOT_CALLS } from '@leasehold/keys-core';
import {
  AWAY_STATUSES,
  controllerUrlsOf,
  controllerUrlsProblem,
  createControllerFetch,
  handshakeFailureOf,
  NoControllerAnswers,
  NotAController,
  type ConnectionFailures,
} from '@leasehold/service-kit/controllers';
import {
  createTRPCClient,
  createWSClient,
  getUntypedClient,
  httpLink,
  TRPCClientError,
  wsLink,
  type TRPCClient,
  type TRPCLink,
  type TRPCWebSocketClient,
} from '@trpc/client';
import { WebSocket, type ClientOptions } from 'ws';
import { assertInput, controllerClientShape } from '../inputs.ts';
import { Ending, sharedController } from '../signals.ts';
import { LeaseholdCallError, showError, shownErrorsLink } from './errors.ts';
import { Lane } from './lane.ts';
import {
  closedLink,
  deadlineLink,
  traceHeaders,
  tracingEncoder,
  tracingLink,
  WaitingCalls,
  witnessLink,
  Witnesses,
} from './links.ts';

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
  /** Called when a controller has answered (`http`). */
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
  readonly lane: Lane;
  /** A connection was closed with this reason. */
  readonly onClosed: (reason: string) => void;
}

/**
 * Makes a client; nothing is sent before the first call, but a WebSocket begins to connect.
 * @throws {LeaseholdCallError} `request.invalid` if `url` is not an address or a list of addresses, or for an option
 * that is not known.
 */
export function createControllerClient(options: ControllerClientOptions): ControllerClient {
  assertInput(controllerClientShape, options, '');
  const problem = controllerUrlsProblem(options.url);
  if (problem !== undefined) {
    throw new LeaseholdCallError('request.invalid', { message: `url: ${problem}.` });
  }
  const failures = new Map<string, unknown>();
  const urls = controllerUrlsOf(options.url);
  const waiting = new WaitingCalls(options.connectionMs, failures, urls);
  const report = (state: 'open' | 'closed'): void => {
    try {
      options.onConnection?.(state);
    } catch (error) {
      // It is an error of its owner's, who is to see it; the connection goes on.
      queueMicrotask(() => {
        throw error;
      });
    }
  };
  const onConnection = (state: 'open' | 'closed'): void => {
    if (state === 'open') failures.clear();
    waiting.changed(state);
    report(state);
  };
  const timeoutMs = options.callTimeoutMs ?? CALL_TIMEOUT_MS;
  const witnesses = new Witnesses();
  // Next to the connection: the others may change the input, by which a message finds its trace.
  const closing = sharedController();
  const own = [
    shownErrorsLink(urls),
    closedLink(closing.signal),
    witnessLink(witnesses),
    deadlineLink(timeoutMs, failures),
    ...(options.transport === 'ws' ? [waiting.link()] : []),
    tracingLink(),
  ];
  const lane = new Lane({
    witnesses,
    closing: closing.signal,
    timeoutMs,
    failures,
    explain: (error) => showError(error, urls.join(', ')),
  });
  const onClosed = (reason: string): void => waiting.refused(reason);
  const deps = { ...options, onConnection, onClosed, own, closing, failures, urls, lane };
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
      return {
        ok: response.ok,
        json: async () => {
          const answer = await controllerAnswerIn(response, init?.method === 'GET');
          onAnswer?.();
          return answer;
        },
      };
    },
  });
  return clientOver({ own: [...own, http], failures }, () => {
    closing.abort();
    return Promise.resolve();
  });
}

/**
 * The answer of a controller, as tRPC writes it.
 * @throws what `fetch` throws where nobody answers, if something else has answered that never passed the call on;
 * {@link NotAController} if it may have passed it on, as a proxy does.
 */
async function controllerAnswerIn(response: Response, isQuery: boolean): Promise<unknown> {
  const { status, url } = response;
  let isWhole = true;
  try {
    const answer: unknown = await response.json();
    if (isOfController(answer)) return answer;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // An answer of a controller, of which a part is lost.
    isWhole = response.headers.get('content-type')?.includes('json') !== true;
  }
  const stranger = new NotAController(status);
  // A query changes nothing, wherever it was passed on to.
  const mayBePassedOn = AWAY_STATUSES.has(status) || (!isQuery && mayComeAfter(status));
  if (mayBePassedOn || !isWhole) throw stranger;
  const path = url.indexOf(`${TRPC_PATH}/`);
  const address = path === -1 ? new URL(url).origin : url.slice(0, path);
  const cause = new NoControllerAnswers(new Map([[address, stranger]]));
  throw new TypeError('fetch failed', { cause });
}

const REQUEST_TIMEOUT = 408;

/** Whether something between may answer so that has passed the call on to a controller. */
function mayComeAfter(status: number): boolean {
  return status >= 500 || status === REQUEST_TIMEOUT;
}

function isOfController(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) return false;
  const { result, error } = answer as { readonly result?: unknown; readonly error?: unknown };
  if (typeof error === 'object' && error !== null) {
    return typeof (error as { readonly code?: unknown }).code === 'number';
  }
  return typeof result === 'object' && result !== null;
}

function overWebSocket(deps: Deps): ControllerClient {
  const { urls, own, closing, failures } = deps;
  const patience = urls.length > 1 ? PATIENCE_OF_SEVERAL : PATIENCE;
  const delayOf = reconnectDelays(deps);
  const sockets = createSockets({
    handshakeMs: patience.handshakeMs,
    onConnection: deps.onConnection,
    lane: deps.lane,
    onClosed: deps.onClosed,
    onFailure(address, error) {
      if (!failures.has(address)) failures.set(address, handshakeFailureOf(error));
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
  const end = async (): Promise<void> => {
    closing.abort();
    const closed = client.close();
    // On a dead link, or before it is open, a socket would close much later.
    const cancel = new AbortController();
    await Promise.race([closed, setTimeout(END_MS_MAX, undefined, { signal: cancel.signal })]);
    cancel.abort();
    sockets.terminate();
  };
  const over = clientOver({ own: [...own, ws], failures }, end);
  return { ...over, api: withLane(over.api, deps.lane) };
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
 * The same API, whose hot calls take the lane where they can. An {@link Ending} may be their options: its signal is
 * made only for a call that goes over tRPC.
 */
function withLane(api: ControllerApi, lane: Lane): ControllerApi {
  const overTrpc = getUntypedClient(api);
  const groupOf = (group: 'keys' | 'leases' | 'drones'): unknown => {
    const calls = HOT_CALLS.filter((path) => path.startsWith(`${group}.`)).map((path) => {
      const mutate = (input: object, options?: Ending | { readonly signal?: AbortSignal }) =>
        lane.call(path, input, options instanceof Ending ? options : options?.signal) ??
        overTrpc.mutation(path, input, options);
      return [path.slice(group.length + 1), { value: { mutate } }] as const;
    });
    return Object.create(api[group], Object.fromEntries(calls));
  };
  return Object.create(api, {
    keys: { value: groupOf('keys') },
    leases: { value: groupOf('leases') },
    drones: { value: groupOf('drones') },
  }) as ControllerApi;
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

// The WebSockets of one client.

const CLOSE_MS_MAX = 500;

const QUICK_CLOSING: ClientOptions & { closeTimeout: number } = {
  closeTimeout: CLOSE_MS_MAX,
  perMessageDeflate: false,
};

/**
 * A socket that does not trust its peer: on a dead link a close handshake is never answered, and
 * would hold up the next connection for half a minute. All calls of one turn of the event loop,
 * which tRPC joins into one message, are sent in parts where a controller would refuse the whole.
 */
class QuickClosingWebSocket extends WebSocket {
  constructor(address: string | URL, handshakeMs: number) {
    super(address, { ...QUICK_CLOSING, handshakeTimeout: handshakeMs });
  }

  override send(data: string): void {
    for (const part of messageParts(data)) super.send(part);
  }

  sendCalls(calls: readonly string[]): void {
    for (const part of partsOf(calls)) super.send(part);
  }
}

interface SocketsOptions {
  readonly handshakeMs: number;
  /** Sends its calls over the newest connection, and takes their answers. */
  readonly lane: Lane;
  readonly onConnection: ((state: 'open' | 'closed') => void) | undefined;
  readonly onClosed: (reason: string) => void;
  /** An address could not be connected to. */
  readonly onFailure: (address: string, error: Error) => void;
}

interface Sockets {
  /** For tRPC: what it makes with `new` is a socket of these. */
  readonly WebSocket: typeof globalThis.WebSocket;
  /** Closes all at once, also those that are not open yet. */
  terminate(): void;
}

/**
 * Sockets that report each opening, and the closing of the last one. When a connection is replaced, the
 * new one opens before the old one has closed: the last report would be a wrong `closed`.
 */
function createSockets(options: SocketsOptions): Sockets {
  const { handshakeMs, lane, onConnection, onClosed, onFailure } = options;
  const sockets = new Set<WebSocket>();
  let openCount = 0;
  const Socket = class extends QuickClosingWebSocket {
    #isOpened = false;

    constructor(address: string | URL) {
      super(address, handshakeMs);
      const fail = (error: Error): void => onFailure(String(address), error);
      sockets.add(this);
      this.once('error', fail);
      this.once('close', (code: number, reason: Buffer) => {
        sockets.delete(this);
        lane.closed(this, { code, reason: reason.toString() });
        onClosed(reason.toString());
      });
      this.once('open', () => {
        this.off('error', fail);
        openCount += 1;
        // First: whatever comes of the report, its closing is counted.
        this.once('close', () => {
          openCount -= 1;
          if (openCount === 0) onConnection?.('closed');
        });
        onConnection?.('open');
      });
    }

    /** tRPC sends the token first: then the lane may use the connection. */
    override send(data: string): void {
      super.send(data);
      if (this.#isOpened) return;
      this.#isOpened = true;
      lane.opened(this);
    }

    /** What answers a call of the lane is not for tRPC. */
    override emit(event: string | symbol, ...values: unknown[]): boolean {
      const [data] = values;
      if (event === 'message' && Buffer.isBuffer(data) && lane.take(data)) return true;
      return super.emit(event, ...values);
    }
  };
  return {
    WebSocket: Socket as unknown as typeof globalThis.WebSocket,
    terminate() {
      for (const socket of sockets) socket.terminate();
    },
  };
}

/** What `@trpc/client` has inside of its client of WebSockets, in the version that this library names. */
interface Internals {
  /** Sends what was registered, after a timer. */
  flushOutgoing(message: unknown, callbacks: Callbacks): void;
  readonly activeConnection: { isOpen(): boolean; readonly ws: unknown };
  readonly requestManager: {
    hasOutgoingRequests(): boolean;
    flush(ws: unknown): readonly OutgoingRequest[];
    delete(message: unknown): unknown;
  };
  send(messages: readonly unknown[]): void;
}

interface Callbacks {
  error(error: TRPCClientError<never>): void;
}

interface OutgoingRequest {
  readonly message: unknown;
  readonly callbacks: Callbacks;
}

/**
 * Sends calls as soon as the code that makes them returns, if there is a connection.
 *
 * tRPC waits for a timer before it sends, to join calls. The shortest timer takes a millisecond, which is as
 * long as all the rest of a call, and what should travel together is one call already: see `batches.ts`.
 * tRPC has no option for it. A client of another version, which has none of this inside, is left as it is.
 */
function sendPromptly(client: TRPCWebSocketClient): void {
  const inside = client as unknown as Internals;
  // oxlint-disable-next-line typescript/unbound-method -- called with its object below
  const { flushOutgoing } = inside;
  if (typeof flushOutgoing !== 'function') return;
  inside.flushOutgoing = (message, callbacks) => {
    if (!inside.activeConnection.isOpen()) {
      flushOutgoing.call(client, message, callbacks);
      return;
    }
    // The call is registered after this returns, and so are those that the same code makes after it.
    queueMicrotask(() => {
      if (!inside.requestManager.hasOutgoingRequests()) return;
      if (inside.activeConnection.isOpen()) sendOutgoing(inside);
      else flushOutgoing.call(client, message, callbacks);
    });
  };
}

function sendOutgoing(inside: Internals): void {
  const requests = inside.requestManager.flush(inside.activeConnection.ws);
  try {
    inside.send(requests.map(({ message }) => message));
  } catch (error) {
    for (const { message, callbacks } of requests) {
      inside.requestManager.delete(message);
      callbacks.error(TRPCClientError.from(error as Error));
    }
  }
}

/**
 * A controller accepts a thousand calls and 896 KiB in one message; a part stays below both, also if each of its
 * characters has three bytes.
 */
const CALLS_MAX = 500;
const CHARACTERS_MAX = 256 * 1_024;
/** A shorter message contains fewer calls than {@link CALLS_MAX}. */
const CHARACTERS_OF_MANY_CALLS = 30 * CALLS_MAX;

/** Cuts a message with a list of calls into several if it is too large. */
export function messageParts(message: string): string[] {
  if (message.length < CHARACTERS_OF_MANY_CALLS || !message.startsWith('[')) return [message];
  return partsOf((JSON.parse(message) as unknown[]).map((call) => JSON.stringify(call)));
}

function partsOf(calls: readonly string[]): string[] {
  const parts: string[][] = [];
  let charactersCount = 0;
  for (const call of calls) {
    let part = parts.at(-1);
    const isFull = charactersCount + call.length > CHARACTERS_MAX;
    if (part === undefined || part.length >= CALLS_MAX || isFull) {
      parts.push((part = []));
      charactersCount = 0;
    }
    part.push(call);
    charactersCount += call.length + 1;
  }
  // A call that is alone is written without a list: a controller refuses such a one without parsing it.
  return parts.map((part) => (part.length === 1 ? part.join() : `[${part.join(',')}]`));
}
