import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel assigns to connections and to listeners on any port: such a port
 * may be taken again before it is used. Not from the ranges that drones use for backends, here and
 * by default: a backend that does not listen yet would be taken for ready.
 */
const PORTS = { from: 18_000, below: 21_000 } as const;
const TRIES_MAX = 100;

/** A port of 127.0.0.1 that nobody listens on at this moment, and that the kernel assigns to nobody. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const port = randomInt(PORTS.from, PORTS.below);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port in ${String(TRIES_MAX)} tries`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const bound = once(server, 'listening').then(
    () => true,
    () => false,
  );
  server.listen(port, '127.0.0.1');
  if (!(await bound)) return false;
  server.close();
  await once(server, 'close');
  return true;
}
