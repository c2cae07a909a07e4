import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '@leasehold/keys-core/postgres';

/** A PostgreSQL that a test kills. */
export interface KillableDatabase {
  url(name: string): string;
  /** `kill -9`; returns when it is gone. */
  kill(): Promise<void>;
  /** Starts it again, on the same port. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Starts one with fsync, as an installation has it: what was committed must be there after the kill. */
export async function startKillableDatabase(): Promise<KillableDatabase> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-database-'));
  const dataDir = path.join(folder, 'postgres');
  let postgres = await startEmbeddedPostgres({ dataDir });
  const { port } = postgres;
  return {
    url: (name) => postgres.url(name),
    async kill() {
      postgres.kill();
      await postgres.exited;
    },
    async restart() {
      postgres = await startEmbeddedPostgres({ dataDir, port });
    },
    async close() {
      await postgres.stop();
      await rm(folder, { recursive: true, maxRetries: 10 });
    },
  };
}
