import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { isErrorCode } from '../processes/process-identity.ts';

/**
 * Listens on an address for a moment. Port 0 finds a free one.
 * @param remedy how another port is chosen, for a user who finds this one taken.
 */
export async function tryToListen(
  host: string,
  port: number,
  remedy: string,
): Promise<{ port: number; problem?: string }> {
  const probe = createServer();
  try {
    probe.listen(port, host);
    await once(probe, 'listening');
    const found = (probe.address() as AddressInfo).port;
    probe.close();
    await once(probe, 'close');
    return { port: found };
  } catch (error) {
    return { port, problem: problemOf(error, { host, port, remedy }) };
  }
}

function problemOf(
  error: unknown,
  { host, port, remedy }: { host: string; port: number; remedy: string },
): string {
  if (isErrorCode(error, 'EADDRINUSE')) {
    return (
      `port ${String(port)} of ${host} is in use by another program: ` +
      `end it, or choose another port with ${remedy}`
    );
  }
  if (isErrorCode(error, 'EACCES')) {
    return `port ${String(port)} may not be used by this user: choose one above 1023 with ${remedy}`;
  }
  const cause = error instanceof Error ? error.message : String(error);
  return `LEASEHOLD_HOST ${host} cannot be listened on: ${cause}`;
}
