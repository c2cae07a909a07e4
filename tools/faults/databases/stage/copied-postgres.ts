/** A PostgreSQL that is backed up while it runs, and put back to that backup. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@leasehold/keys-core/postgres';
import { giveToPostgres, spawnAsPostgres } from './machine-user.ts';
import { postgresFolder } from './programs.ts';

export class CopiedPostgres {
  readonly #folder: string;
  #server: EmbeddedPostgres;

  private constructor(folder: string, server: EmbeddedPostgres) {
    this.#folder = folder;
    this.#server = server;
  }

  static async start(): Promise<CopiedPostgres> {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-base-backup-'));
    await chmod(folder, 0o755);
    return new CopiedPostgres(folder, await startIn(folder));
  }

  url(database: string): string {
    return this.#server.url(database);
  }

  /** With the log up to its end. What was committed before this call is in it. */
  async takeBackup(): Promise<void> {
    await rm(this.#backup, { recursive: true, force: true });
    await mkdir(this.#backup, { mode: 0o700 });
    await giveToPostgres(this.#backup);
    const program = path.join(postgresFolder(), 'bin', 'pg_basebackup');
    const args = ['-D', this.#backup, '-d', this.url('postgres'), '-X', 'stream', '-c', 'fast'];
    const copying = await spawnAsPostgres([program, ...args], 'KILL');
    const [code] = (await once(copying.child, 'close')) as [number | null];
    if (code !== 0) {
      throw new Error(`pg_basebackup ended with ${String(code)}: ${copying.printed()}`);
    }
  }

  /** Kills the database, puts the backup in its place and starts it, as an administrator would. */
  async restore(beforeStart?: () => void): Promise<void> {
    const { port } = this.#server;
    this.#server.kill();
    await this.#server.exited;
    const place = path.join(dataDirIn(this.#folder), 'data');
    await rm(place, { recursive: true });
    await promisify(execFile)('cp', ['-a', this.#backup, place]);
    beforeStart?.();
    this.#server = await startIn(this.#folder, port);
  }

  async close(): Promise<void> {
    await this.#server.stop();
    await rm(this.#folder, { recursive: true, maxRetries: 10 });
  }

  get #backup(): string {
    return path.join(this.#folder, 'backup');
  }
}

function dataDirIn(folder: string): string {
  return path.join(folder, 'postgres');
}

/** One that can be copied while it runs: npm's has no pg_basebackup. */
function startIn(folder: string, port?: number): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDir: dataDirIn(folder), nativeDir: postgresFolder(), port });
}
