import net from 'node:net';
import type { Log } from '../config.ts';

interface PortRange {
  readonly host: string;
  readonly from: number;
  readonly to: number;
}

/** As many ports are reserved at once: few enough that several drones can share a range. */
const BLOCK_PORTS = 100;

/**
 * Gives each backend a port of its own, out of a range or the one that its program names.
 *
 * Drones of one machine may have the same range. So a drone reserves a block of ports before it gives
 * them out, by a socket whose name all processes of the machine see and which ends with the process.
 * Only when every block is reserved by others are their ports tried too: a reservation is no proof of
 * a drone, and must keep nobody from starting backends.
 */
export class Ports {
  readonly #range: PortRange;
  readonly #taken = new Set<number>();
  readonly #blocks = new Map<number, Promise<boolean>>();
  readonly #log: Pick<Log, 'info'>;
  #next: number;

  /** Logs once of each block that another drone of this machine uses. */
  constructor(range: PortRange, log: Pick<Log, 'info'>) {
    this.#range = range;
    this.#next = range.from;
    this.#log = log;
  }

  /** Undefined when every port is taken, by a backend or by another program of this machine. */
  async take(wanted: number | 'auto'): Promise<number | undefined> {
    if (wanted !== 'auto') return (await this.#tryTake(wanted)) ? wanted : undefined;
    return (await this.#takeNext(true)) ?? this.#takeNext(false);
  }

  /** For a backend that runs already. */
  adopt(port: number): void {
    this.#taken.add(port);
    void this.#isReserved(port);
  }

  giveBack(port: number): void {
    this.#taken.delete(port);
  }

  async #takeNext(isOurs: boolean): Promise<number | undefined> {
    const { from, to } = this.#range;
    for (let tries = from; tries <= to; tries += 1) {
      const port = this.#next;
      this.#next = port >= to ? from : port + 1;
      if ((await this.#isReserved(port)) === isOurs && (await this.#tryTake(port))) return port;
    }
    return undefined;
  }

  /** Whether the block of a port is this drone's. */
  #isReserved(port: number): Promise<boolean> {
    const block = Math.floor(port / BLOCK_PORTS);
    let reserved = this.#blocks.get(block);
    if (reserved === undefined) {
      reserved = reserve(block).then((isOurs) => {
        const from = block * BLOCK_PORTS;
        const ports = { from, to: from + BLOCK_PORTS - 1 };
        if (!isOurs) this.#log.info(ports, 'another drone of this machine uses these ports');
        return isOurs;
      });
      this.#blocks.set(block, reserved);
    }
    return reserved;
  }

  async #tryTake(port: number): Promise<boolean> {
    if (this.#taken.has(port)) return false;
    this.#taken.add(port);
    if (await isFree(this.#range.host, port)) return true;
    this.#taken.delete(port);
    return false;
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

function isFree(host: string, port: number): Promise<boolean> {
  const server = net.createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => {
      server.close(() => resolve(true));
    });
  });
}
