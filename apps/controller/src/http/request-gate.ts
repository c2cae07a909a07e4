/**
 * What happens to a request over HTTP before anything else looks at it. Drones and holders renew over
 * WebSockets that are open: what arrives here must leave them most of each turn of the event loop.
 *
 * - A socket may have a few requests under way. No client of ours sends another one before the answer, and
 *   one read of a socket can bring two thousand.
 * - An address that sends too many requests without a good token is not answered: its sockets are closed.
 * - One turn of the event loop begins requests for a few milliseconds, the addresses in turn; the
 *   others wait for the next turn. Renewals and releases of callers that are known do not wait.
 */
import { isUrgentCall } from '@leasehold/api';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { boundAnswers } from '@leasehold/service-kit/answers-under-way';
import { FairQueue } from '@leasehold/service-kit/fair-queue';

/** Requests of one socket that are not answered yet. */
const UNDER_WAY_MAX = 16;
/** Requests that wait for a turn, of all sockets and of one address. */
const WAITING_MAX = 2_000;
const WAITING_PER_ADDRESS_MAX = 500;
/** How long one turn of the event loop begins requests for. */
const SLICE_MS = 4;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface RequestGate {
  /** Hands requests on to a handler, later or not at all. */
  readonly through: (handler: Handler) => Handler;
  /** Watches the sockets of a server. */
  watch(server: Server): void;
}

export interface RequestGateDeps {
  /** A monotonic reading, in milliseconds. */
  readonly nowMs: () => number;
  /** Where a request comes from. */
  readonly addressOf: (request: IncomingMessage) => string;
  /** Whether a request comes with a token in force, by what is known without a look into the database. */
  readonly hasGoodToken: (request: IncomingMessage) => boolean;
  /** Whether a request is of a caller that has sent so many that it is not answered. */
  readonly isShut: (request: IncomingMessage) => boolean;
  /** Calls `work` in the next turn of the event loop. */
  readonly nextTurn: (work: () => void) => void;
}

export function createRequestGate(deps: RequestGateDeps): RequestGate {
  const waiting = new FairQueue<() => void>();
  const beginAnswer = boundAnswers(UNDER_WAY_MAX);
  let sliceEndMs: number | undefined;

  const beginTurn = (): void => {
    sliceEndMs = deps.nowMs() + SLICE_MS;
    deps.nextTurn(() => {
      sliceEndMs = undefined;
      if (waiting.size > 0) beginTurn();
    });
    while (waiting.size > 0 && deps.nowMs() < sliceEndMs) waiting.shift()?.();
  };
  const begin = (request: IncomingMessage, work: () => void): void => {
    const address = deps.addressOf(request);
    if (waiting.size >= WAITING_MAX || waiting.sizeOf(address) >= WAITING_PER_ADDRESS_MAX) {
      request.socket.destroy();
      return;
    }
    waiting.push(address, work);
    if (sliceEndMs === undefined) beginTurn();
    else if (deps.nowMs() < sliceEndMs) waiting.shift()?.();
  };
  return {
    through: (handler) => (request, response) => {
      const { socket } = request;
      if (deps.isShut(request)) {
        socket.destroy();
        return;
      }
      if (!beginAnswer(request, response)) return;
      const work = (): void => {
        if (!socket.destroyed) handler(request, response);
      };
      if (isUrgent(request) && deps.hasGoodToken(request)) work();
      else begin(request, work);
    },
    watch(server) {
      server.on('connection', watchSocket);
      server.on('upgrade', ({ socket }: IncomingMessage) => socket.off('data', closeIfPipelined));
    },
  };
}

/** After the server's own listener, which it takes the place of. */
function watchSocket(socket: Socket): void {
  socket.prependListener('data', closeIfPipelined);
}

/**
 * Closes a socket that brings many requests at once, before they are parsed: to make the objects of two
 * thousand requests takes fifty milliseconds, even if none is answered. The head of each ends with an empty
 * line, of which JSON has none but between its parts.
 */
function closeIfPipelined(this: Socket, chunk: Buffer): void {
  if (emptyLinesIn(chunk, UNDER_WAY_MAX) <= UNDER_WAY_MAX) return;
  this.destroy();
  // The parser is given this piece too, and finds no request in it.
  chunk.fill(0);
}

/** How many empty lines there are; one more than `countMax` if there are more. */
function emptyLinesIn(chunk: Buffer, countMax: number): number {
  let count = 0;
  for (const ending of ['\n\r\n', '\n\n']) {
    for (let at = chunk.indexOf(ending); at >= 0; at = chunk.indexOf(ending, at + 2)) {
      count += 1;
      if (count > countMax) return count;
    }
  }
  return count;
}

function isUrgent({ url = '' }: IncomingMessage): boolean {
  const path = /^\/trpc\/([A-Za-z.]{1,50})(?:\?|$)/u.exec(url)?.[1];
  return path !== undefined && isUrgentCall(path);
}
