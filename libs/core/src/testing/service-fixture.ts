import { PrismaPg } from '@prisma/adapter-pg';
import {
  createLeaseCoordinator,
  createLeaseStore,
  createServiceStore,
} from '@leasehold/keys-core/core';
import { PrismaClient } from '@leasehold/keys-core/prisma';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { DEFAULT_SCHEMA } from '@leasehold/service-kit/database-url';
import { systemIds } from '@leasehold/service-kit/system-ids';
import { createTestDatabase, setMeaningOddly, someOf, startUrlProxy } from '@leasehold/testing';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import {
  createLeaseholdCore,
  pgDatabase,
  prismaDatabase,
  type Clock,
  type LeaseCoordinator,
  type LeaseholdCore,
  type PgTransaction,
  type ServiceDatabase,
} from '../index.ts';

/** A client of a service, which searches the schema `public`. */
interface OpenClient<Tx> {
  readonly database: ServiceDatabase<Tx>;
  /** Writes a note into the service's own table `lease`. */
  write(tx: Tx, note: string): Promise<unknown>;
  /** A setting of the connection, as the service's code finds it. */
  setting(tx: Tx, name: string): Promise<unknown>;
  close(): Promise<unknown>;
}

type Open<Tx> = (url: string) => OpenClient<Tx> | Promise<OpenClient<Tx>>;

/** What a test puts between Leasehold and the client of the service. */
type Around<Tx> = (database: ServiceDatabase<Tx>) => ServiceDatabase<Tx>;

/** A service that shares a database with Leasehold. */
export interface Service<Tx> {
  readonly core: LeaseholdCore<Tx>;
  write(tx: Tx, note: string): Promise<unknown>;
  setting(tx: Tx, name: string): Promise<unknown>;
  /** The notes that were committed. */
  written(): Promise<string[]>;
  /** Runs a statement on Leasehold's tables, over a connection of its own. */
  ours(text: string): Promise<unknown[]>;
  letExpire(leaseId: string): Promise<void>;
  /** The same service in another process. */
  another(): Promise<Service<Tx>>;
  /** The same service in another process, and on a line to the database that may fall silent. */
  onSilentLine(): Promise<OnSilentLine<Tx>>;
}

interface OnSilentLine<Tx> {
  /** Its timers are due early, so that it waits for nothing as long as a real one. */
  readonly coordinator: LeaseCoordinator<Tx>;
  /** Loses everything from within the next transaction on, until {@link heal}. */
  readonly dropInNext: () => void;
  readonly heal: () => void;
}

type PrismaTx = Pick<PrismaClient, '$executeRaw' | '$queryRaw' | '$queryRawUnsafe'>;

/** One connection: a caller that needs a second one while the first is busy would wait forever. */
const CONNECTIONS_MAX = 1;

function connectionsTo(connectionString: string): pg.Pool {
  const options = '-c search_path=public';
  return openConnections({ connectionString, options, max: CONNECTIONS_MAX });
}

/** A pool has ended before its sessions have: the end of their database may end these. */
function openConnections(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config);
  pool.on('error', () => undefined);
  return pool;
}

function openPrisma(url: string): OpenClient<PrismaTx> {
  const pool = connectionsTo(url);
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { disposeExternalPool: true }) });
  return {
    database: prismaDatabase<PrismaTx>(prisma),
    write: async (tx, note) => tx.$executeRaw`insert into lease (note) values (${note})`,
    setting: async (tx, name) => {
      const [row] = await tx.$queryRaw<
        { value: string }[]
      >`select current_setting(${name}) as value`;
      return row?.value;
    },
    close: () => prisma.$disconnect(),
  };
}

function openPg(url: string): OpenClient<PgTransaction> {
  const pool = connectionsTo(url);
  return {
    database: pgDatabase(pool),
    write: (tx, note) => tx.query('insert into lease (note) values ($1)', [note]),
    setting: async (tx, name) =>
      (await tx.query<{ value: string }>('select current_setting($1) as value', [name])).rows[0]
        ?.value,
    close: () => pool.end(),
  };
}

interface ClientKind {
  readonly name: string;
  readonly open: Open<unknown>;
}

const PG_POOLS: readonly ClientKind[] = [
  {
    name: 'a pg pool, and a database whose settings are odd',
    async open(url) {
      await setMeaningOddly(url);
      return openPg(url);
    },
  },
  { name: 'a pg pool', open: openPg },
];

/** The kinds of client that a service may use. In the gate, odd settings stand for the usual ones too. */
export const CLIENTS: readonly ClientKind[] = [
  { name: 'a Prisma client', open: openPrisma },
  ...someOf(PG_POOLS),
];

/** A service with its table `lease`, in a database of the test's own. */
export async function aService<Tx>(open: Open<Tx>, around?: Around<Tx>): Promise<Service<Tx>> {
  const { url } = await createTestDatabase();
  const { service, close } = await openService(open, { url, around });
  onTestFinished(close);
  return service;
}

interface OpenService<Tx> {
  readonly service: Service<Tx>;
  readonly close: () => Promise<void>;
}

/** As {@link aService}, for several tests. */
export async function openService<Tx>(
  open: Open<Tx>,
  { url, around }: Omit<Place<Tx>, 'observer'>,
): Promise<OpenService<Tx>> {
  const observer = openConnections({ connectionString: url });
  try {
    await observer.query('create table public.lease (id serial, note text not null)');
    const { service, close } = await serviceOn(open, { url, observer, around });
    return {
      service,
      async close() {
        await close();
        await observer.end();
      },
    };
  } catch (error) {
    await observer.end();
    throw error;
  }
}

interface Place<Tx> {
  readonly url: string;
  readonly observer: pg.Pool;
  readonly around?: Around<Tx> | undefined;
}

async function serviceOn<Tx>(
  open: Open<Tx>,
  { url, observer, around = (database) => database }: Place<Tx>,
): Promise<OpenService<Tx>> {
  const client = await open(url);
  const ours = async (text: string): Promise<unknown[]> =>
    (await observer.query<Record<string, unknown>>(text)).rows;
  const service: Service<Tx> = {
    core: createLeaseholdCore({ database: around(client.database) }),
    write: (tx, note) => client.write(tx, note),
    setting: (tx, name) => client.setting(tx, name),
    ours,
    async written() {
      const { rows } = await observer.query<{ note: string }>(
        'select note from public.lease order by id',
      );
      return rows.map(({ note }) => note);
    },
    async letExpire(leaseId) {
      await ours(
        `update lease set granted_at = granted_at - interval '1 hour',
           renewed_at = renewed_at - interval '1 hour', expires_at = expires_at - interval '1 hour'
         where lease_id = '${leaseId}'`,
      );
    },
    async another() {
      const other = await serviceOn(open, { url, observer });
      onTestFinished(other.close);
      return other.service;
    },
    onSilentLine: () => openOnSilentLine(open, url),
  };
  return {
    service,
    async close() {
      await client.close();
    },
  };
}

async function openOnSilentLine<Tx>(open: Open<Tx>, url: string): Promise<OnSilentLine<Tx>> {
  const { proxy, url: address } = await startUrlProxy(url);
  onTestFinished(() => proxy.close());
  const client = await open(address);
  onTestFinished(async () => {
    await client.close();
  });
  // First: a client that still waits for an answer does not close.
  onTestFinished(() => proxy.heal());
  let isDropping = false;
  const database: ServiceDatabase<Tx> = {
    transaction: (work, patience) =>
      client.database.transaction((transaction) => {
        if (isDropping) proxy.drop();
        return work(transaction);
      }, patience),
  };
  return {
    coordinator: hastyCoordinator(database),
    dropInNext() {
      isDropping = true;
    },
    heal() {
      isDropping = false;
      proxy.heal();
    },
  };
}

/** By how much its timers are due earlier than those of a real process. */
const HASTE = 4;

/** A coordinator as `createLeaseholdCore` makes it, with a clock of its own. */
function hastyCoordinator<Tx>(database: ServiceDatabase<Tx>): LeaseCoordinator<Tx> {
  const machine = createBootClock();
  const clock: Clock = {
    nowMs: () => machine.nowMs(),
    at: (atMs, fn) => machine.at(machine.nowMs() + (atMs - machine.nowMs()) / HASTE, fn),
  };
  const schema = DEFAULT_SCHEMA;
  const onError = (): void => undefined;
  const store = createServiceStore({ database, schema, clock, ids: systemIds(), onError });
  const leases = createLeaseStore(store);
  return createLeaseCoordinator({ store, leases, holder: 'alice', principal: 'alice' });
}
