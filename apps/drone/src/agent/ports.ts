import net from 'node:net';
import type { Log } from '../config.ts';
import { StartFailed } from './warden-link.ts';

interface PortRange {
  readonly host: string;
  readonly from: number;
  readonly to: number;
}

/** As many ports are reserved at once: few enough that several drones can share a range. */
const BLOCK_PORTS = 100;
/** After this time a block that another process had is asked for again. */
const ASK_AGAIN_MS = 60_000;

/**
 * Gives each backend a port of its own, out of a range or the one that its program names.
 *
 * Drones of one machine may have the same range. So a drone reserves a block of ports before it gives
 * them out, by a socket whose name all processes of the machine see and which ends with the process.
 * Only when every block is reserved by others are their ports tried too: a reservation is no proof of
 * a drone, and must keep nobody from starting backends.
 *
 * A port rests for a while when its backend has ended: a client or a gateway may have the address for as long as the
 * grant was valid, and would reach the backend of another key there. A program with a fixed port gets it at once.
 */
export class Ports {
  readonly #range: PortRange;
  readonly #taken = new Set<number>();
  readonly #blocks = new Map<number, { reserved: Promise<boolean>; askAgainAtMs: number }>();
  readonly #log: Pick<Log, 'info'>;
  readonly #nowMs: () => number;
  /** Until when each port rests, the one that was given back first at the beginning. */
  readonly #resting = new Map<number, number>();
  #next: number;

  /** Logs of each block that another drone of this machine uses, whenever it has asked for it. */
  constructor(range: PortRange, log: Pick<Log, 'info'>, nowMs: () => number) {
    this.#range = range;
    this.#next = range.from;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /**
   * One that does not rest, if one is free, else the one that has rested longest. Undefined when every port is taken,
   * by a backend or by another program of this machine.
   * @throws {StartFailed} when no port can be had for another reason, such as a wrong `host`.
   */
  async take(wanted: number | 'auto'): Promise<number | undefined> {
    if (wanted !== 'auto') return (await this.#tryTake(wanted)) ? wanted : undefined;
    return (await this.#takeNext(true)) ?? (await this.#takeResting()) ?? this.#takeNext(false);
  }

  /** For a backend that runs already. What the agent before gave back meanwhile lies before it, and is not next. */
  adopt(port: number): void {
    this.#taken.add(port);
    if (port >= this.#next && port < this.#range.to) this.#next = port + 1;
    void this.#isReserved(port);
  }

  /** `restMs`: for how long somebody may have its address. */
  giveBack(port: number, restMs: number): void {
    if (!this.#taken.delete(port) || restMs <= 0) return;
    this.#resting.delete(port);
    this.#resting.set(port, this.#nowMs() + restMs);
  }

  #isResting(port: number): boolean {
    const untilMs = this.#resting.get(port);
    if (untilMs === undefined || untilMs > this.#nowMs()) return untilMs !== undefined;
    this.#resting.delete(port);
    return false;
  }

  async #takeResting(): Promise<number | undefined> {
    const { from, to } = this.#range;
    for (const port of this.#resting.keys()) {
      if (from <= port && port <= to && (await this.#tryTake(port))) return port;
    }
    return undefined;
  }

  async #takeNext(isOurs: boolean): Promise<number | undefined> {
    const { from, to } = this.#range;
    for (let tries = from; tries <= to; tries += 1) {
      const port = this.#next;
      this.#next = port >= to ? from : port + 1;
      if (this.#isResting(port) || (await this.#isReserved(port)) !== isOurs) continue;
      if (await this.#tryTake(port)) return port;
    }
    return undefined;
  }

  /** Whether the block of a port is this drone's. One that was another's may be free later: it was the agent's before this. */
  #isReserved(port: number): Promise<boolean> {
    const block = Math.floor(port / BLOCK_PORTS);
    const nowMs = this.#nowMs();
    const known = this.#blocks.get(block);
    if (known !== undefined && nowMs < known.askAgainAtMs) return known.reserved;
    const reserved = reserve(block).then((isOurs) => {
      if (isOurs) return true;
      asked.askAgainAtMs = nowMs + ASK_AGAIN_MS;
      const from = block * BLOCK_PORTS;
      const ports = { from, to: from + BLOCK_PORTS - 1 };
      this.#log.info(ports, 'another drone of this machine uses these ports');
      return false;
    });
    const asked = { reserved, askAgainAtMs: Number.POSITIVE_INFINITY };
    this.#blocks.set(block, asked);
    return reserved;
  }

  async #tryTake(port: number): Promise<boolean> {
    if (this.#taken.has(port)) return false;
    this.#taken.add(port);
    let isOurs = false;
    try {
      isOurs = await isFree(this.#range.host, port);
    } finally {
      if (isOurs) this.#resting.delete(port);
      else this.#taken.delete(port);
    }
    return isOurs;
  }
}

/**
 * Names of sockets that begin with NUL belong to the network that a process is in, as ports do. Where
 * they do not exist, such as on macOS, nothing is reserved.
 */
function reserve(block: number): Promise<boolean> {
  const server = net.createServer((socket) => socket.destroy());
  server.unref();
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'EADDRINUSE'));
    server.listen(`\0leasehold-ports-${String(block)}`, () => resolve(true));
  });
}

/** What the kernel says of a port that is another's. */
const TAKEN_CODES: ReadonlySet<string | undefined> = new Set(['EADDRINUSE', 'EACCES']);

/** @throws {StartFailed} when another port would not help. */
function isFree(host: string, port: number): Promise<boolean> {
  const server = net.createServer();
  return new Promise((resolve, reject) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (TAKEN_CODES.has(code)) resolve(false);
      else reject(new StartFailed(`no port can be had: ${message}`));
    });
    server.listen({ host, port, exclusive: true }, () => {
      server.close(() => resolve(true));
    });
  });
}

/** As other machines name it. */
export function addressOf(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${String(port)}`;
}
