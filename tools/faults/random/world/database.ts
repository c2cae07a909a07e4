/** The database of a run: it can be killed, locked, and its clock can be stepped. */
import { createDatabase, findMigrationsDir, migrate } from '@leasehold/keys-core/postgres';
import { connectionOf } from '@leasehold/service-kit';
import { replaceClock, SHIFTED_CLOCK } from '@leasehold/testing/stack';
import pg from 'pg';
import { startKillableDatabase, type KillableDatabase } from '../../stage/killable-database.ts';
import { SINK } from './workers/settings.ts';

export interface WorldDatabase extends Omit<KillableDatabase, 'url'> {
  readonly url: string;
  /** One statement, on a connection that no fault of the network reaches. */
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Steps the clock from now on, against what it was. */
  stepClock(ms: number): Promise<void>;
  /** Keeps every statement from reading or writing grants, for so long. */
  lockLeases(ms: number): Promise<void>;
  /** Ends the sessions that listen for notifications: what is sent meanwhile is lost. */
  endListeners(): Promise<void>;
}

/** Its sessions have the settings that a pooler drops; its password is its name. */
export const POOLED_ROLE = 'pooled';

/** The sessions of an observer and of faults. */
const SESSIONS_MAX = 6;
const QUERY_MS_MAX = 5_000;

export async function openDatabase(): Promise<WorldDatabase> {
  const postgres = await startKillableDatabase();
  const url = postgres.url('leasehold');
  try {
    await createDatabase(url);
    await migrate(url, findMigrationsDir());
    const pool = new pg.Pool({
      ...connectionOf(url),
      max: SESSIONS_MAX,
      query_timeout: QUERY_MS_MAX,
      connectionTimeoutMillis: QUERY_MS_MAX,
    });
    pool.on('error', () => undefined);
    await pool.query(`create table ${SINK} (entries text[] not null)`);
    await pool.query(`insert into ${SINK} values ('{}')`);
    await pool.query(`
      create role ${POOLED_ROLE} superuser login password '${POOLED_ROLE}';
      alter role ${POOLED_ROLE} set search_path = leasehold, pg_temp;
      alter role ${POOLED_ROLE} set statement_timeout = '2s';
      alter role ${POOLED_ROLE} set idle_in_transaction_session_timeout = '5s';
      alter role ${POOLED_ROLE} set jit = off`);
    const clock = await replaceClock(url, SHIFTED_CLOCK);
    await clock.close();
    return control(url, postgres, pool);
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

function control(url: string, postgres: KillableDatabase, pool: pg.Pool): WorldDatabase {
  const query: WorldDatabase['query'] = async <Row extends pg.QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ) => (await pool.query<Row>(text, [...values])).rows;
  return {
    ...postgres,
    url,
    query,
    async stepClock(ms) {
      await query('update shifted.clock set value = value + $1', [ms]);
    },
    async lockLeases(ms) {
      const client = await pool.connect();
      try {
        await client.query(
          `begin; set local lock_timeout = '2s'; lock table leasehold.lease in access exclusive mode;
           select pg_sleep(${String(ms / 1_000)}); rollback`,
        );
        client.release();
      } catch (error) {
        client.release(true);
        throw error;
      }
    },
    async endListeners() {
      await query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query ilike 'listen%'`,
      );
    },
    async close() {
      await pool.end();
      await postgres.close();
    },
  };
}
