import net from 'node:net';
import { lineChannel, type LineChannel } from './line-channel.ts';
import {
  decodeRequest,
  PROTOCOL_VERSION,
  ProtocolError,
  REQUEST_LINE_MAX,
  type BackendSnapshot,
  type Reply,
  type Request,
  type WardenIdentity,
} from './protocol.ts';
import { StartRefused, type Warden } from './warden.ts';

/**
 * Listens for agents and obeys the newest. A connection that has not said `hello` may do nothing.
 */
export class AgentServer {
  readonly #identity: WardenIdentity;
  readonly #warden: () => Warden;
  readonly #onShutdown: () => void;
  readonly #server: net.Server;
  #agent: LineChannel | undefined;

  constructor(options: { identity: WardenIdentity; warden: () => Warden; onShutdown: () => void }) {
    this.#identity = options.identity;
    this.#warden = options.warden;
    this.#onShutdown = options.onShutdown;
    this.#server = net.createServer((socket) => {
      this.#serve(socket);
    });
  }

  get hasAgent(): boolean {
    return this.#agent !== undefined;
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
      if (this.#agent === channel) this.#agent = undefined;
    });
  }

  async #answer(line: string, channel: LineChannel): Promise<void> {
    try {
      const request = decodeRequest(line);
      channel.send(await this.#replyTo(request, channel));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      channel.send({ id: 0, ok: false, problem: error.message });
      channel.close();
    }
  }

  async #replyTo(request: Request, channel: LineChannel): Promise<Reply> {
    const { id } = request;
    if (request.op === 'hello') return this.#hello(id, request.protocol, channel);
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

  #hello(id: number, protocol: number, channel: LineChannel): Reply {
    if (protocol !== PROTOCOL_VERSION) {
      return { id, ok: false, problem: `this warden speaks protocol ${String(PROTOCOL_VERSION)}` };
    }
    if (this.#agent !== channel) {
      this.#agent?.send({ event: 'superseded' });
      this.#agent?.close();
      this.#agent = channel;
      // Before it can ask for a list: what the former asked for and is not in it never runs.
      this.#warden().cancelLaunches();
    }
    return { id, ok: true, value: this.#identity };
  }

  async #carryOut(request: Exclude<Request, { op: 'hello' }>): Promise<unknown> {
    const warden = this.#warden();
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
        this.#onShutdown();
        return true;
    }
  }
}
