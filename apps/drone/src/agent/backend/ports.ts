import net from 'node:net';

/** Gives each backend a port of its own, out of a range or the one that its program names. */
export class Ports {
  readonly #options: { readonly host: string; readonly from: number; readonly to: number };
  readonly #taken = new Set<number>();
  #next: number;

  constructor(options: { host: string; from: number; to: number }) {
    this.#options = options;
    this.#next = options.from;
  }

  /** Undefined when every port is taken, by a backend or by another program of this machine. */
  async take(wanted: number | 'auto'): Promise<number | undefined> {
    if (wanted !== 'auto') return (await this.#tryTake(wanted)) ? wanted : undefined;
    const { from, to } = this.#options;
    for (let tries = from; tries <= to; tries += 1) {
      const port = this.#next;
      this.#next = port >= to ? from : port + 1;
      if (await this.#tryTake(port)) return port;
    }
    return undefined;
  }

  /** For a backend that runs already. */
  adopt(port: number): void {
    this.#taken.add(port);
  }

  giveBack(port: number): void {
    this.#taken.delete(port);
  }

  async #tryTake(port: number): Promise<boolean> {
    if (this.#taken.has(port)) return false;
    this.#taken.add(port);
    if (await isFree(this.#options.host, port)) return true;
    this.#taken.delete(port);
    return false;
  }
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
