import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '@leasehold/keys-core/postgres';
import { connectionOf } from '@leasehold/service-kit';
import { freePort } from '@leasehold/testing/stack';
import pg from 'pg';
import { adopt, backUp, type Backup } from './database-backup.ts';

/** A PostgreSQL that a test kills, and puts back to an earlier state. */
export interface KillableDatabase {
  url(name: string): string;
  /** `kill -9`; returns when it is gone. */
  kill(): Promise<void>;
  /** Starts it again, on the same port. */
  restart(): Promise<void>;
  /** Makes a backup of it while it works, by default a `copy`. */
  backUp(kind?: Backup['kind']): Promise<Backup>;
  /**
   * Starts a backup in the place of what was killed, on the same port. @returns the folder of what was
   * killed: a cluster that can be started to be read.
   */
  putBack(backup: Backup): Promise<string>;
  close(): Promise<void>;
}

/** Starts one with fsync, as an installation has it: what was committed must be there after the kill. */
export async function startKillableDatabase(): Promise<KillableDatabase> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-database-'));
  let dataDir = path.join(folder, 'postgres');
  // One that the kernel chose may be another's when it is started again.
  const port = await freePort();
  let postgres = await startEmbeddedPostgres({ dataDir, port });
  let backupsCount = 0;
  const restart = async (): Promise<void> => {
    postgres = await startEmbeddedPostgres({ dataDir, port });
  };
  return {
    url: (name) => postgres.url(name),
    async kill() {
      postgres.kill();
      await postgres.exited;
    },
    restart,
    async backUp(kind = 'copy') {
      backupsCount += 1;
      const client = new pg.Client(connectionOf(postgres.url('postgres')));
      client.on('error', () => undefined);
      await client.connect();
      try {
        return await backUp(client, path.join(folder, `backup-${String(backupsCount)}`), kind);
      } finally {
        await client.end();
      }
    },
    async putBack(backup) {
      const lost = dataDir;
      dataDir = await adopt(backup, lost);
      await restart();
      return lost;
    },
    async close() {
      await postgres.stop();
      await rm(folder, { recursive: true, maxRetries: 10 });
    },
  };
}
