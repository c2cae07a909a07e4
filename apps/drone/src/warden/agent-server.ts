import { timingSafeEqual } from 'node:crypto';
import net from 'node:net';
import {
  decodeRequest,
  lineChannel,
  PROTOCOL_VERSION,
  ProtocolError,
  REQUEST_LINE_MAX,
  type BackendSnapshot,
  type Command,
  type Introduction,
  type LineChannel,
  type Reply,
  type WardenIdentity,
} from './protocol.ts';
import { StartRefused, type Warden } from './warden.ts';

interface AgentServerOptions {
  readonly identity: WardenIdentity;
  /** What an agent must present; see `WardenRecord`. */
  readonly secret: string;
  readonly warden: () => Warden;
  readonly onShutdown: () => void;
}

/**
 * Listens for agents and obeys the newest that took command. A connection that has not presented the
 * secret learns nothing and is cut off.
 */
export class AgentServer {
  readonly #options: AgentServerOptions;
  readonly #server: net.Server;
  /** Connections that have presented the secret. */
  readonly #trusted = new Set<LineChannel>();
  #agent: LineChannel | undefined;

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.#server = net.createServer((socket) => this.#serve(socket));
  }

  /** Whether an agent of this drone is connected, in command or not yet. */
  get hasAgent(): boolean {
    return this.#trusted.size > 0;
  }

  /** Resolves when agents can connect. The socket is its owner's alone from its first moment. */
  listen(socketPath: string): Promise<void> {
    const formerMask = process.umask(0o177);
    return new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(socketPath, resolve);
    }).finally(() => process.umask(formerMask));
  }

  tell(backend: BackendSnapshot): void {
    this.#agent?.send({ event: 'changed', backend });
  }

  #serve(socket: net.Socket): void {
    const channel: LineChannel = lineChannel(socket, {
      lengthMax: REQUEST_LINE_MAX,
      onLine: (line) => void this.#answer(line, channel),
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#trusted.delete(channel);
      if (this.#agent === channel) this.#agent = undefined;
    });
  }

  async #answer(line: string, channel: LineChannel): Promise<void> {
    try {
      const request = decodeRequest(line);
      if ('secret' in request) this.#introduce(request, channel);
      else if (!this.#trusted.has(channel)) refuse(channel, request.id, 'hello comes first');
      else channel.send(await this.#replyTo(request, channel));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      refuse(channel, 0, error.message);
    }
  }

  #introduce({ id, op, protocol, secret }: Introduction, channel: LineChannel): void {
    if (!isEqual(secret, this.#options.secret)) {
      refuse(channel, id, 'the secret is not that of this warden');
      return;
    }
    if (protocol !== PROTOCOL_VERSION) {
      refuse(channel, id, `this warden speaks protocol ${String(PROTOCOL_VERSION)}`);
      return;
    }
    this.#trusted.add(channel);
    if (op === 'hello' && this.#agent !== channel) {
      this.#agent?.send({ event: 'superseded' });
      this.#agent?.close();
      this.#agent = channel;
      // Before it can ask for a list: a start of the former agent that is not in it never runs.
      this.#options.warden().cancelLaunches();
    }
    channel.send({ id, ok: true, value: this.#options.identity });
  }

  async #replyTo(request: Command, channel: LineChannel): Promise<Reply> {
    const { id } = request;
    if (this.#agent !== channel) return { id, ok: false, problem: 'superseded' };
    try {
      return { id, ok: true, value: await this.#carryOut(request) };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const problem =
        error instanceof StartRefused ? error.message : `start_failed: ${error.message}`;
      return { id, ok: false, problem };
    }
  }

  async #carryOut(request: Command): Promise<unknown> {
    const warden = this.#options.warden();
    switch (request.op) {
      case 'start':
        return warden.start(request.backend);
      case 'extend':
        return warden.extend(request.items);
      case 'stop':
        return warden.stop(request.stop);
      case 'note':
        return warden.note(request.backendId, request.meta);
      case 'alive':
        return warden.aliveIds();
      case 'list':
        return warden.list();
      case 'forget':
        return warden.forget(request.backendId);
      case 'shutdown':
        this.#options.onShutdown();
        return true;
    }
  }
}

function refuse(channel: LineChannel, id: number, problem: string): void {
  channel.send({ id, ok: false, problem });
  channel.close();
}

/** In a time that does not show how much of the secret is right. */
function isEqual(offered: string, secret: string): boolean {
  const [a, b] = [Buffer.from(offered), Buffer.from(secret)];
  return a.length === b.length && timingSafeEqual(a, b);
}
