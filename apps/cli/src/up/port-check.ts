import { once } from 'node:events';
import { createServer } from 'node:net';
import { isErrorCode } from './process-identity.ts';

/** Why nobody could listen on this address now; undefined when one could. Port 0 is always free. */
export async function portProblem(host: string, port: number): Promise<string | undefined> {
  const probe = createServer();
  try {
    probe.listen(port, host);
    await once(probe, 'listening');
    return undefined;
  } catch (error) {
    if (isErrorCode(error, 'EADDRINUSE')) {
      return (
        `port ${String(port)} of ${host} is in use by another program: ` +
        'end it, or choose another port with --port N (or LEASEHOLD_PORT)'
      );
    }
    if (isErrorCode(error, 'EACCES')) {
      return `port ${String(port)} may not be used by this user: choose one above 1023 with --port N`;
    }
    return `LEASEHOLD_HOST ${host} cannot be listened on: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    probe.close();
  }
}
