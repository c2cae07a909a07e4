import { DEFAULT_SCHEMA } from '@leasehold/service-kit';
import type pg from 'pg';

/** A database that is emptied after a test, so that the next one finds it as a new one. */
export interface BlankDatabase {
  /**
   * Deletes every row of the test. Numbers go on: of events, for one, whose readers remember them.
   * @returns false when a test has left more than rows, or a transaction that holds them.
   */
  empty(): Promise<boolean>;
}

/** Rows that are there from the beginning, as they were. */
const FIRST_ROWS = `
  update lease_token_floor set floor = 0 where floor <> 0;
  update search_mark set place = null, walked_at = null where walked_at is not null or place is not null;
  update reservation_membership set datacenter = null, store_id = null, synced_epoch = null
  where num_nonnulls(datacenter, store_id, synced_epoch) > 0;`;

/** Tables that are not emptied: what a process knows of them must stay true. */
const KEPT_TABLES = [
  ...['schema_migration', 'database_epoch', 'database_witness'],
  ...[
    'lease_token_floor',
    'search_mark',
    'reservation_membership',
    'stats_cursor',
    'lease_event_mark',
  ],
];

/** Tables that refer to others come first. */
const TABLES = `
  select string_agg(format('delete from %I.%I;', n.nspname, c.relname), ' ' order by (
    select count(*) from pg_constraint f where f.contype = 'f' and f.confrelid = c.oid
  )) as text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname = $1 and c.relname <> all ($2)`;

/** Changes when anything but rows does: a table, a function, the epoch. */
const SHAPE = `
  select concat_ws(' ',
    (select concat(count(*), '/', max(oid::bigint)) from pg_class where relpersistence <> 't'),
    (select max(oid::bigint) from pg_constraint),
    (select max(xmin::text::bigint) from pg_proc),
    (select max(xmin::text::bigint) from pg_trigger),
    (select max(xmin::text::bigint) from pg_attrdef),
    (select concat(epoch, token, hold_off_until) from database_epoch)) as shape`;

/** What shows whether a lock is not given back. */
const LOCK_TIMEOUT_MS = 1_000;

/** Takes the database as it is now for a blank one. Nothing may be in it yet. */
export async function blankDatabase(connections: pg.Pool): Promise<BlankDatabase> {
  const { rows } = await connections.query<{ text: string }>(TABLES, [DEFAULT_SCHEMA, KEPT_TABLES]);
  const deletes = rows[0]?.text ?? '';
  const shape = async (): Promise<string | undefined> =>
    (await connections.query<{ shape: string }>(SHAPE)).rows[0]?.shape;
  const before = await shape();
  return {
    async empty() {
      const client = await connections.connect();
      try {
        await client.query(
          `begin; set local lock_timeout = ${String(LOCK_TIMEOUT_MS)}; ${deletes} ${FIRST_ROWS} commit`,
        );
      } catch {
        await client.query('rollback').catch(() => undefined);
        return false;
      } finally {
        client.release();
      }
      return (await shape()) === before;
    },
  };
}
