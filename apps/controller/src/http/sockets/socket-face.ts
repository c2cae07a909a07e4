import { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import {
  callDirectly,
  describeError,
  errorShape,
  isDirectCall,
  noteRefused,
  type ApiContext,
} from '@leasehold/api';
import type { Clock, LeaseError } from '@leasehold/keys-core';
import { activeTracer, carrierIn, withinCarried } from '@leasehold/service-kit/tracing';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { once } from '../../fair-use/pacing.ts';
import { LARGE_BYTES, type ScheduledConnection, type WireCall } from '../calls/inbox.ts';
import { STALL_MS_MAX } from './slow-readers.ts';

// Keeps WebSockets honest: a peer that vanishes silently is noticed by pings. Pings are the
// protocol's own, so every WebSocket client answers them by itself.
//
// While a peer waits in line for a lease it is pinged more often, and only then: its place in line
// is kept only while it has sent anything within the last second.

const PING_MS = 2_000;
/** A peer that was silent for this long is gone. */
const SILENCE_MS_MAX = 6_000;
/** Two pings may be answered late before a peer that waits counts as silent. */
const WATCHED_PING_MS = 400;
/** A peer that waits is alive if it sent anything within this time. */
const ALIVE_MS = 1_000;

/** What is known of the peer of a socket. */
interface KeptSocket {
  /** Whether it sent anything within {@link ALIVE_MS}: meaningful while it is watched. */
  isAlive(): boolean;
  /** Pings it often, until the returned function is called. */
  watch(): () => void;
}

/** Watches one socket until it closes. */
export function keepSocket(socket: WebSocket, clock: Clock): KeptSocket {
  const nowMs = readingOfTurn(clock);
  let silentMs = 0;
  let heardAtMs = clock.nowMs();
  let watcherCount = 0;
  let watchTimer: NodeJS.Timeout | undefined;
  const ping = (): void => {
    if (socket.readyState === socket.OPEN) socket.ping();
  };
  const hear = (): void => {
    silentMs = 0;
    heardAtMs = clock.nowMs();
  };
  const timer = setInterval(() => {
    silentMs += PING_MS;
    if (silentMs > SILENCE_MS_MAX) socket.terminate();
    else ping();
  }, PING_MS);
  timer.unref();
  socket.on('pong', hear);
  socket.on('message', () => {
    // The exact time of a message matters only while somebody watches.
    if (watcherCount > 0) heardAtMs = clock.nowMs();
    silentMs = 0;
  });
  socket.once('close', () => {
    clearInterval(timer);
    clearInterval(watchTimer);
  });
  return {
    isAlive: () => socket.readyState === socket.OPEN && nowMs() - heardAtMs <= ALIVE_MS,
    watch() {
      watcherCount += 1;
      if (watcherCount === 1) {
        // A caller that begins to wait has just sent its call.
        heardAtMs = clock.nowMs();
        watchTimer = setInterval(ping, WATCHED_PING_MS);
        watchTimer.unref();
      }
      return once(() => {
        watcherCount -= 1;
        if (watcherCount === 0) clearInterval(watchTimer);
      });
    },
  };
}

/** Reads the clock once in a turn of the event loop, in which thousands of waiters may be checked. */
function readingOfTurn(clock: Clock): () => number {
  let reading: number | undefined;
  return () => {
    if (reading === undefined) {
      reading = clock.nowMs();
      queueMicrotask(() => {
        reading = undefined;
      });
    }
    return reading;
  };
}

/**
 * Answers the pings that clients write as text. The next answer is sent when the network has taken the one before: for a
 * peer that reads none of them no more than one is kept.
 */
export function pongsOneByOne(socket: WebSocket): () => void {
  let isUnderWay = false;
  let isNextAsked = false;
  const answer = (): void => {
    if (isUnderWay) {
      isNextAsked = true;
      return;
    }
    isUnderWay = true;
    socket.send('PONG', (error) => {
      isUnderWay = false;
      if (!isNextAsked || error instanceof Error) return;
      isNextAsked = false;
      answer();
    });
  };
  return answer;
}

/** A close code of the private range: this connection has no token in force, or no longer has one. */
export const TOKEN_ENDED = 4_401;
const CLOSE_MS_MAX = 1_000;

/** Closes a socket politely, and after a second in any case. */
export function endSocket(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState === socket.CLOSED) return;
  // The answer to a close is read even where nothing else is.
  socket.resume();
  socket.close(code, reason);
  const timer = setTimeout(() => socket.terminate(), CLOSE_MS_MAX);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}

type Network = Pick<Duplex, 'cork' | 'uncork' | 'prependListener'>;

const EMPTY = Buffer.alloc(0);
const TRY_AGAIN_LATER = 1_013;
/** Of a ping or a pong of a client, with its mask. */
const CONTROL_HEADER_BYTES = 6;
const LOOK_EVERY_MS = 5_000;

/** What carries out calls that do not go through tRPC. */
export interface DirectCaller {
  readonly ctx: ApiContext;
  /** Called with each call that failed. */
  readonly onError: (error: Error, path: string) => void;
}

/**
 * The socket that tRPC's adapter is given in place of the real one: it gets one call at a time, when
 * the scheduler says, and what it answers is counted until the caller has read it. Calls that are made
 * most often do not go to the adapter: see {@link callDirectly}.
 */
export class SocketFace extends EventEmitter implements ScheduledConnection {
  readonly use: PrincipalUse;
  readonly #socket: WebSocket;
  readonly #network: Network;
  #isGathering = false;
  /** Of a message that has not ended, about. */
  #heldBytes = 0;
  #isPaused = false;
  /** Whether the principal has sent too much too soon. */
  #isEarly = false;
  #unread = new Set<() => void>();
  /** How many answers have been taken since the last check. */
  #takenCount = 0;
  #direct: DirectCaller | undefined;
  #isNoting = false;

  /** @param network what carries the socket, paused. */
  constructor(socket: WebSocket, network: Network, use: PrincipalUse) {
    super();
    this.use = use;
    this.#socket = socket;
    this.#network = network;
    const stall = setInterval(() => this.#endIfStalled(), LOOK_EVERY_MS);
    stall.unref();
    socket.once('close', () => {
      clearInterval(stall);
      for (const read of this.#unread) read();
      this.#unread = new Set();
      this.#endMessage();
      this.emit('close');
    });
    socket.on('message', () => this.#endMessage());
    for (const kind of ['ping', 'pong']) socket.on(kind, (data: Buffer) => this.#endControl(data));
    socket.on('error', (error) => this.emit('error', error));
    // Before `ws`, which takes the message that ends with this piece.
    network.prependListener('data', (chunk: Buffer) => this.#pace(chunk));
  }

  get readyState(): number {
    return this.#socket.readyState;
  }

  /** Unread answers of this connection, in bytes. */
  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  send(data: string): void {
    const read = this.use.sent(data.length);
    this.#unread.add(read);
    this.#gather();
    this.#socket.send(data, () => {
      this.#takenCount += 1;
      if (this.#unread.delete(read)) read();
    });
  }

  /**
   * The answers that one statement brings, or one turn of the scheduler refuses, leave with one call of the
   * system, which costs as much as all else that an answer takes.
   */
  #gather(): void {
    if (this.#isGathering) return;
    this.#isGathering = true;
    this.#network.cork();
    process.nextTick(() => {
      this.#isGathering = false;
      this.#network.uncork();
    });
  }

  close(code?: number, reason?: string): void {
    this.#socket.close(code, reason);
  }

  /** From now on calls of {@link isDirectCall} are carried out by `direct`. */
  serveDirectly(direct: DirectCaller): void {
    this.#direct = direct;
  }

  begin(call: WireCall): void {
    const path = call.params?.path;
    if (this.#direct !== undefined && isOrdinary(call) && isDirectCall(path)) {
      void this.#carryOut(this.#direct, call, path);
      return;
    }
    decoding.call = call;
    // As binary: {@link callEncoder} decodes it, and tRPC would look into a text first.
    const handOver = (): boolean => this.emit('message', EMPTY, true);
    if (call.trace === undefined || activeTracer() === undefined) handOver();
    else withinCarried(carrierIn(call.trace), handOver);
  }

  async #carryOut(direct: DirectCaller, { id, params }: WireCall, path: string): Promise<void> {
    let answer: string;
    try {
      const data = await callDirectly(direct.ctx, path, params?.input);
      answer = JSON.stringify({ id, result: { type: 'data', data } });
    } catch (error) {
      direct.onError(error instanceof Error ? error : new Error(String(error)), path);
      answer = SocketFace.refusalOf(id, error);
    }
    if (this.readyState === this.#socket.OPEN) this.send(answer);
  }

  refuse(call: WireCall | undefined, error: LeaseError): void {
    this.send(SocketFace.refusalOf(call?.id, error));
    if (call?.params !== undefined) this.#note(call.params, error);
  }

  /** Keeps a sample of what is refused unread: one at a time, however many calls came together. */
  #note({ path, input }: NonNullable<WireCall['params']>, error: LeaseError): void {
    if (this.#isNoting || this.#direct === undefined || typeof path !== 'string') return;
    this.#isNoting = true;
    const rawInput = (): Promise<unknown> => Promise.resolve(input);
    void noteRefused(this.#direct.ctx, { path, rawInput }, error).finally(() => {
      this.#isNoting = false;
    });
  }

  /** An error as tRPC sends it. */
  static refusalOf(callId: unknown, error: unknown): string {
    const id = typeof callId === 'number' || typeof callId === 'string' ? callId : null;
    return JSON.stringify({ id, error: errorShape(describeError(error)) });
  }

  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#readOrNot();
  }

  /**
   * Counts what arrives, and reads on later when its principal sends too fast. What is small is read on at once:
   * renewals do not wait for what other connections of their principal send.
   */
  #pace(chunk: Buffer): void {
    this.#heldBytes += chunk.length;
    if (this.use.holds(chunk.length)) {
      this.#socket.terminate();
      return;
    }
    const waitMs = this.use.received(chunk.length);
    if (waitMs === 0 || chunk.length < LARGE_BYTES || this.#isEarly) return;
    this.#isEarly = true;
    this.#readOrNot();
    setTimeout(() => {
      this.#isEarly = false;
      this.#readOrNot();
    }, waitMs).unref();
  }

  #endMessage(): void {
    this.use.holds(-this.#heldBytes);
    this.#heldBytes = 0;
  }

  /** Takes back only what is known of its frame: it may have come between the parts of a message. */
  #endControl(data: Buffer): void {
    const bytes = Math.min(this.#heldBytes, CONTROL_HEADER_BYTES + data.length);
    this.use.holds(-bytes);
    this.#heldBytes -= bytes;
  }

  #readOrNot(): void {
    if (this.#isPaused || this.#isEarly) this.#socket.pause();
    else this.#socket.resume();
  }

  #stalledMs = 0;

  #endIfStalled(): void {
    this.#stalledMs =
      this.#unread.size > 0 && this.#takenCount === 0 ? this.#stalledMs + LOOK_EVERY_MS : 0;
    this.#takenCount = 0;
    if (this.#stalledMs < STALL_MS_MAX) return;
    this.#socket.close(TRY_AGAIN_LATER, 'answers are not read');
    this.#socket.terminate();
  }
}

/** A call as our clients write it; tRPC knows what to answer to anything else. */
function isOrdinary({ id, method, jsonrpc }: WireCall): boolean {
  return method === 'mutation' && typeof id === 'number' && jsonrpc === undefined;
}

/** The call that is being handed over; it is taken before another one can be. */
const decoding: { call: WireCall | undefined } = { call: undefined };

/** Hands tRPC calls that were already parsed. */
export const callEncoder = {
  encode: (data: unknown): string => JSON.stringify(data),
  decode: (): unknown => decoding.call,
};
