/** `health --config FILE`: whether the warden of this drone answers. For the health checks of containers. */
import { once } from 'node:events';
import net from 'node:net';
import { readWardenRecord } from '../warden/link/socket-path.ts';

const ANSWER_MS_MAX = 3_000;
/** A warden answers it, with a refusal: a health check has no secret, and never takes command. */
const QUESTION = `${JSON.stringify({ id: 0, op: 'alive' })}\n`;

/** What is wrong; undefined when the warden of the state folder answers. */
export async function wardenProblem(stateDir: string): Promise<string | undefined> {
  const record = readWardenRecord(stateDir);
  if (record === undefined) return `no warden has started in ${stateDir}`;
  const socket = net.connect(record.socketPath);
  try {
    socket.write(QUESTION);
    await once(socket, 'data', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return undefined;
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'AbortError';
    const why = isLate ? `not in ${String(ANSWER_MS_MAX)} ms` : String(error);
    return `the warden does not answer: ${why}`;
  } finally {
    socket.destroy();
  }
}
