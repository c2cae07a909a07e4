/**
 * The short way of the calls that are made most often, over the WebSocket that tRPC keeps open. It writes tRPC's own
 * frames, so that a controller of any version answers, without an observable, a link, a timer or a signal for each
 * call. Where it cannot be taken, because there is no connection or because traces are sent, a call goes over tRPC.
 */
import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { ConnectionFailures } from '@leasehold/service-kit/controllers';
import { activeTracer } from '@leasehold/service-kit/tracing';
import { TRPCClientError } from '@trpc/client';
import { onAbort } from '@leasehold/service-kit/signals';
import { Ending } from '../signals.ts';
import { noAnswerWithin, type Witnesses } from './links.ts';

/** What the lane needs of a WebSocket. */
interface LaneSocket {
  readonly readyState: number;
  readonly OPEN: number;
  /** Sends calls that are written already, in as few messages as a controller accepts. */
  sendCalls(calls: readonly string[]): void;
}

interface LaneDeps {
  readonly witnesses: Witnesses;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
  /** A call without an answer by then fails. Milliseconds. */
  readonly timeoutMs: number;
  /** Adds to an error what is known of the connection. */
  readonly explain: (error: TRPCClientError<AppRouter>) => void;
  /** Why the addresses cannot be connected to. */
  readonly failures: ConnectionFailures;
}

interface Waiting {
  readonly path: string;
  readonly datacenter: string | undefined;
  readonly socket: LaneSocket;
  readonly endsAtMs: number;
  /** Undefined once it has ended: the map keeps ended calls in its former tables until a full collection. */
  caller: Caller | undefined;
}

/** Who waits for an answer. */
interface Caller {
  readonly resolve: (data: unknown) => void;
  readonly reject: (error: unknown) => void;
  unfollow: (() => void) | undefined;
}

interface Answer {
  readonly id: number;
  readonly result?: { readonly data?: unknown };
  readonly error?: unknown;
}

type ErrorAnswer = Exclude<Parameters<typeof TRPCClientError.from<AppRouter>>[0], Error>;

/** The ids of tRPC's own calls begin at 1. */
const FIRST_ID = 1_000_000_000;
const ID = /^\{"id":(\d{10,15}),/u;
/** Where an answer has its id. */
const BEGIN_LENGTH = 24;

export class Lane {
  readonly #deps: LaneDeps;
  /** By id, the one that was sent first comes first. */
  readonly #waiting = new Map<number, Waiting>();
  #lastId = FIRST_ID;
  #socket: LaneSocket | undefined;
  /** What was called since this turn began. */
  #outgoing: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: LaneDeps) {
    this.#deps = deps;
    deps.closing.addEventListener(
      'abort',
      () => this.#fail(() => new LeaseError('client.closed')),
      { once: true },
    );
  }

  /** From now on calls go over this connection. */
  opened(socket: LaneSocket): void {
    this.#socket = socket;
  }

  /** What was sent over this connection, and has no answer, gets none. */
  closed(socket: LaneSocket, { code, reason }: { code: number; reason: string }): void {
    if (this.#socket === socket) this.#socket = undefined;
    const cause = { code, reason };
    this.#fail(
      () => new Error('WebSocket closed', { cause }),
      (waiting) => waiting.socket === socket,
    );
  }

  /**
   * Makes a call, which is given up when `end` aborts. Undefined where it has to go over tRPC.
   * @throws {TRPCClientError} as tRPC.
   */
  call(
    path: string,
    input: object,
    end: AbortSignal | Ending | undefined,
  ): Promise<unknown> | undefined {
    const socket = this.#socket;
    if (socket === undefined || socket.readyState !== socket.OPEN) return undefined;
    if (this.#deps.closing.aborted || activeTracer() !== undefined) return undefined;
    if (end?.aborted === true) return Promise.reject(this.#givenUp());
    return new Promise((resolve, reject) => {
      const { datacenter } = input as { readonly datacenter?: string };
      const id = (this.#lastId += 1);
      const text = this.#textOf(id, { path, input, datacenter });
      const endsAtMs = performance.now() + this.#deps.timeoutMs;
      const caller: Caller = { resolve, reject, unfollow: undefined };
      const waiting: Waiting = { path, datacenter, socket, endsAtMs, caller };
      this.#waiting.set(id, waiting);
      const giveUp = (): void => this.#end(id, waiting)?.reject(this.#givenUp());
      if (end instanceof Ending) end.onEnd(giveUp);
      else if (end !== undefined) caller.unfollow = onAbort(end, giveUp);
      this.#watch();
      if (this.#outgoing.push(text) === 1) queueMicrotask(() => this.#flush(socket));
    });
  }

  /** Takes a message if it answers one of these calls. */
  take(message: Buffer): boolean {
    const id = Number(ID.exec(message.toString('latin1', 0, BEGIN_LENGTH))?.[1] ?? 0);
    if (id < FIRST_ID) return false;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return true;
    const caller = this.#end(id, waiting);
    try {
      const { result, error } = JSON.parse(message.toString()) as Answer;
      if (error !== undefined) throw this.#errorOf({ error } as ErrorAnswer);
      this.#deps.witnesses.note(waiting, result?.data);
      caller?.resolve(result?.data);
    } catch (error) {
      // What is no JSON has not come from a controller.
      caller?.reject(error instanceof TRPCClientError ? error : this.#errorOf(error as Error));
    }
    return true;
  }

  /** As our clients write a call, with what a controller has told of its database. */
  #textOf(
    id: number,
    { path, input, datacenter }: { path: string; input: object; datacenter: string | undefined },
  ): string {
    const witness = this.#deps.witnesses.of(path, datacenter);
    const json = JSON.stringify(witness === undefined ? input : { ...input, witness });
    return `{"id":${String(id)},"method":"mutation","params":{"input":${json},"path":"${path}"}}`;
  }

  /** All calls of one turn travel together. */
  #flush(socket: LaneSocket): void {
    const calls = this.#outgoing;
    this.#outgoing = [];
    socket.sendCalls(calls);
  }

  /** @returns who waits for it, the first time. */
  #end(id: number, waiting: Waiting): Caller | undefined {
    const { caller } = waiting;
    this.#waiting.delete(id);
    waiting.caller = undefined;
    caller?.unfollow?.();
    return caller;
  }

  /** One timer for all calls: for the one that was sent first. */
  #watch(): void {
    if (this.#timer !== undefined) return;
    const [first] = this.#waiting.values();
    if (first === undefined) return;
    const afterMs = Math.max(0, first.endsAtMs - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const nowMs = performance.now();
      const { timeoutMs, failures } = this.#deps;
      this.#fail(
        () => noAnswerWithin(timeoutMs, failures),
        ({ endsAtMs }) => endsAtMs <= nowMs,
      );
      this.#watch();
    }, afterMs);
    this.#timer.unref();
  }

  #fail(why: () => Error, isMeant: (waiting: Waiting) => boolean = () => true): void {
    for (const [id, waiting] of this.#waiting) {
      if (!isMeant(waiting)) continue;
      this.#end(id, waiting)?.reject(this.#errorOf(why()));
    }
  }

  #givenUp(): TRPCClientError<AppRouter> {
    return this.#errorOf(new DOMException('The call was given up.', 'AbortError'));
  }

  #errorOf(cause: Error | ErrorAnswer): TRPCClientError<AppRouter> {
    const error = TRPCClientError.from<AppRouter>(cause);
    this.#deps.explain(error);
    return error;
  }
}
