import { DEFAULT_SCHEMA } from '@leasehold/service-kit';
import { copyForTests, waitUntil, type TestDatabase } from '@leasehold/testing';
import type pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import type { Store } from '../postgres/open-store.ts';
import type { RecordPool } from '../postgres/records.ts';

/** A store that a test has, and its database. */
export interface TakenStore {
  readonly store: Store;
  readonly databaseUrl: string;
}

/** A database that the tests of a file use one after the other, and stores that stay open on it. */
interface KeptDatabase {
  readonly database: TestDatabase;
  readonly blank: BlankDatabase;
  readonly stores: Store[];
  /** What the test has of them. */
  lent: LentStore[];
}

interface LentStore {
  readonly store: Store;
  /** From now on it refuses statements, as a closed one. */
  takeBack(): void;
  isClosed(): boolean;
}

const POOLS = [
  'general',
  'transitions',
  'renewals',
  'vital',
  'slowLane',
  'reads',
  'guests',
] as const;
/** As long as a statement that nobody waits for any more may take. */
const IDLE_WITHIN_MS = 500;

/**
 * A way for tests to get a store that is open already: its sessions have planned what they send. It is on
 * an empty database that the test has for itself; when the address is that of one which the test has, it is
 * the store of a second controller there. Any other database gets no such store.
 */
export function keepStores(
  open: (databaseUrl: string) => Store,
): (databaseUrl: string | undefined) => Promise<TakenStore | undefined> {
  const inUse = new Map<string, KeptDatabase>();
  const takeDatabase = keepBetweenTests<KeptDatabase>(
    async () => {
      const database = await copyForTests();
      const store = open(database.url);
      await store.witness.ready();
      const blank = await blankDatabase(store.general.connections);
      return { database, blank, stores: [store], lent: [] };
    },
    {
      async renew(kept) {
        const { lent, stores, blank } = kept;
        inUse.delete(kept.database.url);
        kept.lent = [];
        for (const each of lent) each.takeBack();
        if (lent.some((each) => each.isClosed())) return false;
        return (await areIdle(stores)) && blank.empty();
      },
      async end({ stores, database }) {
        await Promise.all(stores.map((store) => store.close()));
        await database.drop();
      },
    },
  );
  return async (databaseUrl) => {
    const kept = databaseUrl === undefined ? await takeDatabase() : inUse.get(databaseUrl);
    if (kept === undefined) return undefined;
    const { url } = kept.database;
    inUse.set(url, kept);
    const lent = lend((kept.stores[kept.lent.length] ??= open(url)));
    kept.lent.push(lent);
    return { store: lent.store, databaseUrl: url };
  };
}

/** What runs on after its test finds the store closed, as if it had been closed. */
function lend(store: Store): LentStore {
  let isTakenBack = false;
  let isClosed = false;
  const refuse = (): void => {
    if (isTakenBack) throw new Error('the test that had this store has ended');
  };
  const lentPool = (pool: RecordPool<never>): RecordPool<never> => ({
    ...pool,
    get records() {
      refuse();
      return pool.records;
    },
    $queryRaw: async (...query) => {
      refuse();
      return pool.$queryRaw(...query);
    },
    $executeRaw: async (...query) => {
      refuse();
      return pool.$executeRaw(...query);
    },
    $transaction: async (work) => {
      refuse();
      return pool.$transaction(work);
    },
    close: async () => {
      isClosed = true;
      await pool.close();
    },
  });
  const pools = Object.fromEntries(
    POOLS.map((name) => [name, lentPool(store[name] as RecordPool<never>)]),
  ) as unknown as Pick<Store, (typeof POOLS)[number]>;
  return {
    store: {
      ...store,
      ...pools,
      guestDatabase: {
        transaction: async (work) => {
          refuse();
          return store.guestDatabase.transaction(work);
        },
      },
      close: async () => {
        isClosed = true;
        await store.close();
      },
    },
    takeBack: () => {
      isTakenBack = true;
    },
    isClosed: () => isClosed,
  };
}

/** Waits for statements that are under way. */
async function areIdle(stores: readonly Store[]): Promise<boolean> {
  const pools = stores.flatMap((store) => POOLS.map((name) => store[name].connections));
  const isIdle = (): boolean =>
    pools.every((pool) => pool.idleCount === pool.totalCount && pool.waitingCount === 0);
  return waitUntil(isIdle, { timeoutMs: IDLE_WITHIN_MS, pollMs: 2 }).catch(() => false);
}

/** What several tests of a file use, one after the other. */
interface Kept<Thing> {
  /** Makes it as it was when it was new, after a test. @returns whether the next test can have it. */
  readonly renew: (thing: Thing) => Promise<boolean>;
  readonly end: (thing: Thing) => Promise<void>;
}

/**
 * A way to take what costs much to make: each test has it for itself until it ends, and the next test of
 * the file gets it again. A file that ends leaves its things to the next one to end.
 */
function keepBetweenTests<Thing>(
  make: () => Promise<Thing>,
  { renew, end }: Kept<Thing>,
): () => Promise<Thing> {
  let free: Thing[] = [];
  let file: string | undefined;
  return async () => {
    const { testPath } = expect.getState();
    if (testPath !== file) {
      const left = free;
      [free, file] = [[], testPath];
      await Promise.all(left.map(end));
    }
    const thing = free.pop() ?? (await make());
    onTestFinished(async () => {
      if (await renew(thing)) free.push(thing);
      else await end(thing);
    });
    return thing;
  };
}

/** A database that is emptied after a test, so that the next one finds it as a new one. */
interface BlankDatabase {
  /**
   * Deletes every row of the test. Numbers go on: of events, for one, whose readers remember them.
   * @returns false when a test has left more than rows, or a transaction that holds them.
   */
  empty(): Promise<boolean>;
}

/** Rows that are there from the beginning, as they were; and none of those that a trigger writes when others go. */
const FIRST_ROWS = `
  delete from lease_wait;
  update lease_token_floor set floor = 0 where floor <> 0;
  update search_mark set place = null, walked_at = null where walked_at is not null or place is not null;
  update reservation_membership set datacenter = null, store_id = null, synced_epoch = null
  where num_nonnulls(datacenter, store_id, synced_epoch) > 0;`;

/** Tables that are not emptied: what a process knows of them must stay true. */
const KEPT_TABLES = [
  'schema_migration',
  'database_epoch',
  'database_witness',
  'lease_token_floor',
  'search_mark',
  'reservation_membership',
  'stats_cursor',
  'lease_event_mark',
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
    (select max(xmin::text::bigint) from pg_attribute where attnum > 0),
    (select max(xmin::text::bigint) from pg_attrdef),
    (select concat(epoch, token, hold_off_until) from database_epoch)) as shape`;

/** What shows whether a lock is not given back. */
const LOCK_TIMEOUT_MS = 1_000;

/** Takes the database as it is now for a blank one. Nothing may be in it yet. */
async function blankDatabase(connections: pg.Pool): Promise<BlankDatabase> {
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
