import net from 'node:net';
import { lineChannel, type LineChannel } from '../../warden/link/line-channel.ts';
import {
  PROTOCOL_VERSION,
  REPLY_LINE_MAX,
  REQUEST_LINE_MAX,
  type BackendSnapshot,
  type ExtendRequest,
  type Reply,
  type Request,
  type StartRequest,
  type StopRequest,
  type WardenEvent,
  type WardenIdentity,
} from '../../warden/link/protocol.ts';
import type { WardenRecord } from '../../warden/link/socket-path.ts';
import { StartFailed, WardenLost, type WardenLink, type WardenListener } from './warden-link.ts';

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
