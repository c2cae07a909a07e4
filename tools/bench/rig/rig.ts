/** The base of every measurement: one PostgreSQL that loses no commit, and databases in it. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Role } from '@leasehold/keys-core';
import { connectionOf, createBootClock, systemIds } from '@leasehold/service-kit';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  openStore,
  startEmbeddedPostgres,
  type Store,
} from '@leasehold/keys-core/postgres';
import { createLeaseStore, type LeaseStore } from '@leasehold/keys-core/grants';
import { insertToken, newTokenSecret } from '@leasehold/keys-core/access';
import pg from 'pg';

/** Both sides of a comparison get as many connections. */
export const CONNECTIONS_MAX = 10;

export interface BenchDatabase {
  readonly url: string;
  readonly store: Store;
  readonly leases: LeaseStore;
  /** The driver alone, for the other side. */
  readonly pool: pg.Pool;
}

export interface Rig {
  /** Where measurements may keep files; removed at the end. */
  readonly folder: string;
  readonly isQuick: boolean;
  readonly postgresVersion: string;
  /** The settings that decide whether a commit may be lost. */
  readonly durability: Readonly<Record<string, string>>;
  /** A new database, migrated as this version is or as `migrations` say, whose connections the rig closes. */
  database(name: string, migrations?: string): Promise<BenchDatabase>;
  /** Calls `step` at the next {@link clear}, the latest first. */
  onClose(step: () => Promise<unknown>): void;
  /** Ends what a measurement has started, so that it does not run beside the next one. */
  clear(): Promise<void>;
  /** Clears, stops PostgreSQL and removes all files. */
  close(): Promise<void>;
}

/** Starts PostgreSQL with fsync and synchronous commit, as an installation has them. */
export async function openRig({ isQuick }: Pick<Rig, 'isQuick'>): Promise<Rig> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-bench-'));
  const steps: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const closeDownTo = async (count: number): Promise<void> => {
    while (steps.length > count) await steps.pop()?.();
  };
  try {
    const postgres = await startEmbeddedPostgres({
      dataDir: path.join(folder, 'postgres'),
      // Statistics are read by a measurement, and a checkpoint in one side's round would be unfair.
      settings: {
        max_connections: '200',
        max_wal_size: '8GB',
        checkpoint_timeout: '30min',
        track_wal_io_timing: 'on',
      },
    });
    steps.push(() => postgres.stop());
    const ownCount = steps.length;
    const clock = createBootClock();
    return {
      folder,
      isQuick,
      ...(await readSettings(postgres.url('postgres'))),
      onClose: (step) => steps.push(step),
      clear: () => closeDownTo(ownCount),
      close: () => closeDownTo(0),
      async database(name, migrations = findMigrationsDir()) {
        const url = postgres.url(name);
        await createDatabase(url);
        await migrate(url, migrations);
        const store = openStore({
          databaseUrl: url,
          datacenter: 'bench',
          clock,
          ids: systemIds(),
          connectionsMax: CONNECTIONS_MAX,
        });
        const pool = new pg.Pool({ ...connectionOf(url), max: CONNECTIONS_MAX });
        // A connection that the stopping server ends is no failure; a query that fails reports that itself.
        pool.on('error', () => undefined);
        steps.push(async () => {
          await pool.end();
          await store.close();
        });
        return { url, store, leases: createLeaseStore(store), pool };
      },
    };
  } catch (error) {
    await closeDownTo(0);
    throw error;
  }
}

/** The secret of a new token. */
export async function insertTokenOf(
  { store }: BenchDatabase,
  access: { readonly role: Role; readonly droneId: string | null },
): Promise<string> {
  const secret = newTokenSecret();
  await insertToken(store.general, {
    tokenId: randomUUID(),
    secret,
    name: 'bench',
    namespaces: null,
    createdBy: 'bench',
    expiresAt: null,
    ...access,
  });
  return secret;
}

async function readSettings(url: string): Promise<Pick<Rig, 'postgresVersion' | 'durability'>> {
  const client = new pg.Client(connectionOf(url));
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string; setting: string }>(
      `select name, setting from pg_settings
       where name in ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes') order by name`,
    );
    const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
    const decisive = ['fsync', 'synchronous_commit', 'full_page_writes'];
    return {
      postgresVersion: settings.get('server_version') ?? 'unknown',
      durability: {
        PostgreSQL: decisive.map((name) => `${name} ${settings.get(name) ?? '?'}`).join(', '),
      },
    };
  } finally {
    await client.end();
  }
}
