import net from 'node:net';

/** A way to a server that can go silent: what is sent is lost, and nobody is told. */
export interface SilentProxy extends AsyncDisposable {
  readonly url: string;
  /** From now on packets are dropped in both directions; connections stay open. */
  cut(): void;
  /** New connections pass again. What was lost stays lost. */
  heal(): void;
}

export async function startSilentProxy(targetUrl: string): Promise<SilentProxy> {
  const target = new URL(targetUrl);
  const sockets = new Set<net.Socket>();
  let isCut = false;

  const server = net.createServer((near) => {
    const far = net.connect({ host: target.hostname, port: Number(target.port) });
    let isLost = false;
    const pass = (to: net.Socket) => (chunk: Buffer) => {
      // A connection that lost something once is never whole again.
      isLost ||= isCut;
      if (!isLost) to.write(chunk);
    };
    near.on('data', pass(far));
    far.on('data', pass(near));
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        if (!isLost && !isCut) other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = address !== null && typeof address === 'object' ? address.port : 0;

  return {
    url: `http://127.0.0.1:${String(port)}`,
    cut: () => {
      isCut = true;
    },
    heal: () => {
      isCut = false;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
