/**
 * A PostgreSQL on a disk that only this process and its children see. It is started again whenever it
 * ends, as a supervisor does, until the process is asked to end.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@leasehold/keys-core/postgres';

export interface PostgresSettings {
  readonly dataDir: string;
  readonly settings: Readonly<Record<string, string>>;
}

const AGAIN_MS = 500;

const { dataDir, settings } = JSON.parse(process.argv[2] ?? '{}') as PostgresSettings;
const stopping = new AbortController();
let server: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir, settings });
const { port } = server;

async function stop(): Promise<void> {
  stopping.abort();
  await server.stop();
  process.exit(0);
}
process.once('SIGTERM', () => void stop());
process.once('disconnect', () => void stop());
process.send?.({ type: 'ready', url: server.url('postgres') });

while (!stopping.signal.aborted) {
  await server.exited;
  try {
    server = await startEmbeddedPostgres({ dataDir, port, settings });
    console.log('started again');
  } catch (error) {
    console.log('could not be started', (error as Error).message);
    await pause(AGAIN_MS);
  }
}
