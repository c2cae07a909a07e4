import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';

/** Passes connections on to a port of this machine, and counts what comes back. */
export interface CountingProxy {
  readonly port: number;
  /** How many bytes clients have received so far, headers included. */
  receivedBytes(): number;
  close(): Promise<void>;
}

export async function startCountingProxy(toPort: () => number): Promise<CountingProxy> {
  const sockets = new Set<Socket>();
  let received = 0;
  const server = createServer((client) => {
    const upstream = connect(toPort(), '127.0.0.1');
    upstream.on('data', (chunk) => (received += chunk.byteLength));
    client.pipe(upstream).pipe(client);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    receivedBytes: () => received,
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
