import net from 'node:net';
import type { Ladder } from '@leasehold/keys-core';
import type { WardenRecord } from '../records.ts';
import {
  lineChannel,
  PROTOCOL_VERSION,
  REPLY_LINE_MAX,
  REQUEST_LINE_MAX,
  type BackendSnapshot,
  type ExtendRequest,
  type LineChannel,
  type Reply,
  type Request,
  type StartRequest,
  type StopRequest,
  type WardenEvent,
  type WardenIdentity,
  type WarmEnd,
  type WarmStart,
} from '../warden/protocol.ts';

/**
 * The agent's hold on its warden. The processes behind it may be simulated: nothing here says that
 * they are real.
 *
 * A new link only looks: it knows the warden's identity. Everything else works once
 * {@link takeCommand} has resolved, which ends the command of any other agent.
 *
 * Every call may throw {@link WardenLost}: the connection is gone, and whether the request was
 * carried out is unknown.
 */
export interface WardenLink {
  readonly identity: WardenIdentity;
  takeCommand(): Promise<void>;
  /** @throws {StartFailed} when nothing was started, and nothing will be. */
  start(request: StartRequest): Promise<BackendSnapshot>;
  /** Starts a process without a key. @throws {StartFailed} when nothing was started, and nothing will be. */
  warm(request: WarmStart): Promise<{ claimFile: string }>;
  /** Kills a warm process. Whether it was there: then `cooled` follows; of one that is being started `warm` fails instead. */
  cool(warmId: string): Promise<boolean>;
  /** What is wrong with each item, in order; null where nothing is. */
  extend(items: readonly ExtendRequest[]): Promise<(string | null)[]>;
  /** Whether the warden knows the backend. */
  stop(stop: StopRequest): Promise<boolean>;
  note(backendId: string, meta: unknown): Promise<void>;
  /** The ids of the backends of which processes are left. */
  alive(): Promise<string[]>;
  list(): Promise<BackendSnapshot[]>;
  forget(backendId: string): Promise<void>;
  /** Kills whatever is left, and ends the warden; resolves when it has. */
  shutdown(): Promise<void>;
  /** Disconnects from the warden and leaves its backends to it. */
  close(): void;
}

export interface WardenListener {
  changed(backend: BackendSnapshot): void;
  /** A warm process has ended that no backend had claimed. */
  cooled(end: WarmEnd): void;
  /** A newer agent commands the warden: this one must end. */
  superseded(): void;
  /** The connection has ended and nobody closed it: the warden is dead, or it does not answer. */
  lost(): void;
}

/** Where an agent finds its warden. */
export interface WardenSource {
  /**
   * Connects to the warden that runs, or starts one.
   * @throws {WardenLost} when none comes up.
   */
  supply(listener: WardenListener, needs: SupplyNeeds): Promise<WardenLink>;
  /** Kills a warden that does not answer, and so its backends. */
  end(pid: number): void;
}

export interface SupplyNeeds {
  readonly replyTimeoutMs: () => number;
  /** Whether a warden that runs and does not answer may be ended now; if not, it is tried again. */
  readonly mayEndSilent: (clockId: string) => Promise<boolean>;
}

/** The warden cannot be reached any more. */
export class WardenLost extends Error {
  override readonly name = 'WardenLost';
}

/** The warden did not start a backend. */
export class StartFailed extends Error {
  override readonly name = 'StartFailed';
}

/** The most that a start adds to a wait: the warden may launch it until its soft deadline. */
const START_MS_MAX = 60_000;
/** How many deadlines travel in one line. */
const EXTEND_ITEMS_MAX = 1_000;
/** The rest of a request, around its backend, is far shorter than this. */
const ENVELOPE_LENGTH = 100;

/** A request of the protocol without its id. */
type Question = WithoutId<Request>;
type WithoutId<Message> = Message extends unknown ? Omit<Message, 'id'> : never;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
  readonly timer: NodeJS.Timeout;
}

export interface SocketLinkOptions {
  readonly listener: WardenListener;
  /** How long to wait for a reply, read at each request. */
  readonly replyTimeoutMs: () => number;
  readonly nowMs: () => number;
}

/** A warden listens and does not answer: it is stopped or stuck. */
export class WardenSilent extends WardenLost {}

/** A {@link WardenLink} over the warden's socket. */
export class SocketWardenLink implements WardenLink {
  identity!: WardenIdentity;
  readonly #channel: LineChannel;
  readonly #options: SocketLinkOptions;
  readonly #secret: string;
  readonly #ended: Promise<void>;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  /** Whether the end is reported: not before the connection is in use, nor after it was closed here. */
  #isWatched = false;

  private constructor(socket: net.Socket, secret: string, options: SocketLinkOptions) {
    this.#options = options;
    this.#secret = secret;
    this.#channel = lineChannel(socket, {
      lengthMax: REPLY_LINE_MAX,
      onLine: (line) => this.#receive(JSON.parse(line) as Reply | WardenEvent),
    });
    socket.on('error', () => socket.destroy());
    this.#ended = new Promise((resolve) => {
      socket.on('close', () => {
        this.#end();
        resolve();
      });
    });
  }

  /**
   * Connects to the warden of a record and learns who it is; takes no command.
   * @throws {WardenSilent} when one listens and does not answer in time.
   * @throws {WardenLost} when none listens there.
   */
  static async connect(
    { socketPath, secret }: Pick<WardenRecord, 'socketPath' | 'secret'>,
    options: SocketLinkOptions,
  ): Promise<SocketWardenLink> {
    const socket = net.connect(socketPath);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', (cause) =>
        reject(
          isNobodyThere(cause)
            ? new WardenLost('no warden listens', { cause })
            : new WardenSilent('the warden takes no connection', { cause }),
        ),
      );
    });
    const link = new SocketWardenLink(socket, secret, options);
    try {
      link.identity = await link.#introduce('peek');
    } catch (cause) {
      link.close();
      if (!(cause instanceof WardenLost)) throw cause;
      throw new WardenSilent('the warden does not answer', { cause });
    }
    link.#isWatched = true;
    return link;
  }

  async takeCommand(): Promise<void> {
    await this.#introduce('hello');
  }

  async start(request: StartRequest): Promise<BackendSnapshot> {
    // For a longer line the warden would end the connection, which serves every other backend too.
    if (JSON.stringify(request).length + ENVELOPE_LENGTH > REQUEST_LINE_MAX) {
      throw new StartFailed('its arguments and its environment are too long');
    }
    return (await this.#ask({ op: 'start', backend: request })) as BackendSnapshot;
  }

  async warm(request: WarmStart): Promise<{ claimFile: string }> {
    return (await this.#ask({ op: 'warm', warm: request })) as { claimFile: string };
  }

  async cool(warmId: string): Promise<boolean> {
    return (await this.#ask({ op: 'cool', warmId })) as boolean;
  }

  async extend(items: readonly ExtendRequest[]): Promise<(string | null)[]> {
    const problems: Promise<unknown>[] = [];
    for (let first = 0; first < items.length; first += EXTEND_ITEMS_MAX) {
      const page = items.slice(first, first + EXTEND_ITEMS_MAX);
      problems.push(this.#ask({ op: 'extend', items: page }));
    }
    return ((await Promise.all(problems)) as (string | null)[][]).flat();
  }

  async stop(stop: StopRequest): Promise<boolean> {
    return (await this.#ask({ op: 'stop', stop })) as boolean;
  }

  async note(backendId: string, meta: unknown): Promise<void> {
    await this.#ask({ op: 'note', backendId, meta });
  }

  async alive(): Promise<string[]> {
    return (await this.#ask({ op: 'alive' })) as string[];
  }

  async list(): Promise<BackendSnapshot[]> {
    return (await this.#ask({ op: 'list' })) as BackendSnapshot[];
  }

  async forget(backendId: string): Promise<void> {
    await this.#ask({ op: 'forget', backendId });
  }

  async shutdown(): Promise<void> {
    // It closes the connection as it ends; that is no loss.
    this.#isWatched = false;
    await this.#ask({ op: 'shutdown' });
    await this.#ended;
  }

  close(): void {
    this.#isWatched = false;
    this.#channel.close();
  }

  async #introduce(op: 'peek' | 'hello'): Promise<WardenIdentity> {
    const introduction = { op, protocol: PROTOCOL_VERSION, secret: this.#secret };
    return (await this.#ask(introduction)) as WardenIdentity;
  }

  /** A start is answered when the program runs, or when soft has come. */
  #timeoutOf(question: Question): number {
    const replyMs = this.#options.replyTimeoutMs();
    if (question.op === 'warm') return replyMs + START_MS_MAX;
    if (question.op !== 'start') return replyMs;
    const untilSoftMs = question.backend.softAtMs - this.#options.nowMs();
    return replyMs + Math.min(Math.max(untilSoftMs, 0), START_MS_MAX);
  }

  #ask(question: Question): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        // Whether it was carried out is unknown: the next connection asks for the list.
        this.#channel.destroy();
      }, this.#timeoutOf(question));
      this.#waiting.set(id, { resolve, reject, timer });
      if (!this.#channel.send({ id, ...question })) {
        this.#settle(id)?.reject(new WardenLost('the warden is gone'));
      }
    });
  }

  #receive(message: Reply | WardenEvent): void {
    if ('event' in message) {
      if (message.event === 'changed') this.#options.listener.changed(message.backend);
      else if (message.event === 'cooled') this.#options.listener.cooled(message.end);
      else {
        this.#isWatched = false;
        this.#options.listener.superseded();
      }
      return;
    }
    const waiting = this.#settle(message.id);
    if (message.ok) waiting?.resolve(message.value);
    else {
      waiting?.reject(
        message.problem === 'superseded'
          ? new WardenLost('superseded')
          : new StartFailed(message.problem),
      );
    }
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    clearTimeout(waiting?.timer);
    return waiting;
  }

  #end(): void {
    for (const id of [...this.#waiting.keys()]) {
      this.#settle(id)?.reject(new WardenLost('the warden is gone'));
    }
    if (!this.#isWatched) return;
    this.#isWatched = false;
    this.#options.listener.lost();
  }
}

function isNobodyThere(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNREFUSED' || error.code === 'ENOENT');
}

/**
 * How long the agent waits for its warden: fractions of the time from soft to hard, so that the
 * whole chain ends before hard whatever the ladder is.
 *
 *   soft ──ask, within a tick──▶ no reply after 1/2 ──look again──▶ kill at 3/4, within a tick ──▶ hard
 *
 * The leash acts in the first quarter of what is left from hard to expiry. The shortest time from soft
 * to hard that a ladder may have is 500 ms, and so is that from hard to expiry; a tick is 50 ms.
 */
const REPLY_SHARE = 1 / 2;
const KILL_SHARE = 3 / 4;
const LEASH_SHARE = 1 / 4;
/** The longest wait, however long the ladder is; also while this agent has no grant. */
const REPLY_MS_MAX = 3_000;

type Rungs = Pick<Ladder, 'softAfterMs' | 'hardAfterMs'>;

function goodbyeMs({ softAfterMs, hardAfterMs }: Rungs): number {
  return hardAfterMs - softAfterMs;
}

/** How long to wait for a reply of the warden while these grants are held. */
export function replyTimeoutMs(ladders: Iterable<Rungs>): number {
  let shortestMs = Number.POSITIVE_INFINITY;
  for (const ladder of ladders) shortestMs = Math.min(shortestMs, goodbyeMs(ladder));
  return Math.min(REPLY_MS_MAX, shortestMs * REPLY_SHARE);
}

/** From the moment a key is to be renewed until its backend is to stop; the longest of several. */
export function renewWindowMs(
  ladders: Iterable<Pick<Ladder, 'renewAfterMs' | 'softAfterMs'>>,
): number {
  let longestMs = 0;
  for (const { renewAfterMs, softAfterMs } of ladders) {
    longestMs = Math.max(longestMs, softAfterMs - renewAfterMs);
  }
  return longestMs;
}

/** When a warden that does not answer is asked about a backend at the latest: its soft deadline. */
export function askAtMs(hardAtMs: number, ladder: Rungs): number {
  return hardAtMs - goodbyeMs(ladder);
}

/**
 * Whether a process of a backend was there when its key had run out, by this machine's clock. Counted from soft, which
 * a key that is lost early leaves where it was.
 */
export function hasOutlivedKey(
  { goneAtMs }: Pick<BackendSnapshot, 'goneAtMs'>,
  softAtMs: number,
  { softAfterMs, ttlMs }: Pick<Ladder, 'softAfterMs' | 'ttlMs'>,
): boolean {
  return goneAtMs !== null && goneAtMs > softAtMs + ttlMs - softAfterMs;
}

/** When a warden that does not answer is killed because of a backend. */
export function killAtMs(hardAtMs: number, ladder: Rungs): number {
  return hardAtMs - goodbyeMs(ladder) * (1 - KILL_SHARE);
}

/**
 * How long after hard the leash ends a warden that has not killed the backend: the time for a
 * warden that is merely late, on a busy machine.
 */
export function leashMs({ hardAfterMs, ttlMs }: Pick<Ladder, 'hardAfterMs' | 'ttlMs'>): number {
  return (ttlMs - hardAfterMs) * LEASH_SHARE;
}
