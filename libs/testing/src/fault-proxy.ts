import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** Which way bytes go: `up` from who connected to the target, `down` back. */
export type Direction = 'up' | 'down';

/**
 * A TCP proxy that behaves as networks do when they fail. Sockets stay open under every fault but
 * `cut`: neither side is told anything, as with packets that are dropped.
 */
export interface FaultProxy {
  readonly host: string;
  readonly port: number;
  /** How many connections are open. */
  readonly connectionsCount: number;
  /** How many bytes were lost so far. */
  readonly lostBytesCount: number;
  /** Where connections made from now on go to. */
  setTarget(target: { readonly host: string; readonly port: number }): void;
  /**
   * Loses everything that is sent that way, both ways unless said, until {@link FaultProxy.heal}.
   * Connections made meanwhile are accepted and hear nothing, which is the worst a network does.
   */
  drop(...directions: Direction[]): void;
  /** Holds every byte back for so long before it is passed on. */
  delay(delayMs: number): void;
  /** Holds answers back, also those of connections made from now on, until {@link FaultProxy.heal}. */
  hold(): void;
  /** Resets every connection. */
  cut(): void;
  /**
   * Ends dropping, delaying and holding. Connections that lost bytes are reset: what comes after a hole in a
   * stream would be garbage, which no TCP hands out.
   */
  heal(): void;
  close(): Promise<void>;
}

interface Link {
  readonly sockets: readonly [Socket, Socket];
  hasHole: boolean;
}

/** Starts a proxy on a free port of 127.0.0.1. */
export async function startFaultProxy(target: {
  readonly host: string;
  readonly port: number;
}): Promise<FaultProxy> {
  const links = new Set<Link>();
  const dropped = new Set<Direction>();
  let aim = target;
  let heldMs = 0;
  let isHolding = false;
  let lostBytesCount = 0;

  const pass = (link: Link, direction: Direction, to: Socket) => (chunk: Buffer) => {
    if (dropped.has(direction)) {
      link.hasHole = true;
      lostBytesCount += chunk.length;
      return;
    }
    if (heldMs === 0) {
      to.write(chunk);
      return;
    }
    setTimeout(() => to.write(chunk), heldMs).unref();
  };

  const server = createServer((near) => {
    const far = connect(aim.port, aim.host);
    const link: Link = { sockets: [near, far], hasHole: false };
    links.add(link);
    // Not read, so not passed on: what was held comes in order, and none of it is lost.
    if (isHolding) far.pause();
    near.on('data', pass(link, 'up', far));
    far.on('data', pass(link, 'down', near));
    for (const [socket, other, direction] of [
      [near, far, 'up'],
      [far, near, 'down'],
    ] as const) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        links.delete(link);
        // The news of an end is a packet as well.
        if (!dropped.has(direction)) other.destroy();
      });
    }
  });

  const reset = (which: (link: Link) => boolean): void => {
    for (const link of [...links].filter(which)) {
      links.delete(link);
      for (const socket of link.sockets) {
        if (socket.connecting) socket.destroy();
        else socket.resetAndDestroy();
      }
    }
  };

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    get connectionsCount() {
      return links.size;
    },
    get lostBytesCount() {
      return lostBytesCount;
    },
    setTarget(next) {
      aim = next;
    },
    drop(...directions) {
      for (const direction of directions.length > 0 ? directions : (['up', 'down'] as const)) {
        dropped.add(direction);
      }
    },
    delay(delayMs) {
      heldMs = delayMs;
    },
    hold() {
      isHolding = true;
      for (const { sockets } of links) sockets[1].pause();
    },
    cut() {
      reset(() => true);
    },
    heal() {
      dropped.clear();
      heldMs = 0;
      isHolding = false;
      for (const { sockets } of links) sockets[1].resume();
      reset(({ hasHole, sockets }) => hasHole || sockets.some((socket) => socket.destroyed));
    },
    async close() {
      server.close();
      reset(() => true);
      await once(server, 'close');
    },
  };
}
