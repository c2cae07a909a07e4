import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** TCP connections that are open at once, of all callers. */
const CONNECTIONS_MAX = 20_000;

/**
 * Bounds how many TCP connections one address may have open before it is known who uses them. One more
 * is closed at once.
 */
export interface ConnectionGuard {
  /** Notes that the caller on a connection is known: it no longer counts against its address. */
  known(socket: Socket): void;
}

export function guardConnections(server: Server, perAddressMax: number): ConnectionGuard {
  const unknownBy = new Map<string, number>();
  const forgets = new WeakMap<Socket, () => void>();
  server.maxConnections = CONNECTIONS_MAX;
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const count = (unknownBy.get(address) ?? 0) + 1;
    if (count > perAddressMax) {
      socket.destroy();
      return;
    }
    unknownBy.set(address, count);
    const forget = (): void => {
      if (!forgets.delete(socket)) return;
      const left = (unknownBy.get(address) ?? 1) - 1;
      if (left === 0) unknownBy.delete(address);
      else unknownBy.set(address, left);
    };
    forgets.set(socket, forget);
    socket.once('close', forget);
  });
  return {
    known(socket) {
      forgets.get(socket)?.();
    },
  };
}
