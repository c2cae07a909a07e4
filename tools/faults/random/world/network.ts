/** The lines of a run, by the name of who calls: each can fail by itself. */
import { startFaultProxy, type FaultProxy } from '@leasehold/testing/stack';

export interface Network {
  /** A line to a port of this machine. @returns the port to call. */
  lay(from: string, to: string, port: number): Promise<number>;
  /** The lines from one process to others whose name begins with `to`; all of them without it. */
  lines(from: string, to?: string): FaultProxy[];
  /** All lines there are. */
  readonly all: readonly FaultProxy[];
  close(): Promise<void>;
}

export function createNetwork(): Network {
  const lines: { from: string; to: string; proxy: FaultProxy }[] = [];
  return {
    async lay(from, to, port) {
      const proxy = await startFaultProxy({ host: '127.0.0.1', port });
      lines.push({ from, to, proxy });
      return proxy.port;
    },
    lines: (from, to = '') =>
      lines
        .filter((line) => line.from === from && line.to.startsWith(to))
        .map(({ proxy }) => proxy),
    get all() {
      return lines.map(({ proxy }) => proxy);
    },
    async close() {
      await Promise.all(lines.map(({ proxy }) => proxy.close()));
    },
  };
}
