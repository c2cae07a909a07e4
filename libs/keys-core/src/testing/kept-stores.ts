import {
  blankDatabase,
  copyForTests,
  keepBetweenTests,
  waitUntil,
  type BlankDatabase,
  type TestDatabase,
} from '@leasehold/testing';
import type { Store } from '../postgres/open-store.ts';
import type { Pool } from '../postgres/pool.ts';

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
  const lentPool = (pool: Pool<never>): Pool<never> => ({
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
    connections: pool.connections,
    reserve: () => pool.reserve(),
    close: async () => {
      isClosed = true;
      await pool.close();
    },
  });
  const pools = Object.fromEntries(
    POOLS.map((name) => [name, lentPool(store[name] as Pool<never>)]),
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
