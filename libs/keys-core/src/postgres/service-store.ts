/**
 * The store of a service: Leasehold's statements on the service's own connections, in transactions
 * of the service's own client.
 *
 * The service's code expects its own tables, and Leasehold's statements ours. So each transaction
 * switches `search_path`, and the settings that go with it, only for itself: to Leasehold's schema
 * before a statement of ours, and back to what the service had before its code is called.
 */
import { searchPathOf } from '@leasehold/service-kit/database-url';
import { STATEMENT_SETTINGS } from '@leasehold/service-kit/session-settings';
import type { Clock, IdSource } from '../kernel/clock.ts';
import { LeaseError } from '../kernel/errors.ts';
import { sqlStateOf } from './database-errors.ts';
import { type CoordinatorStore, GUEST_MS_MAX, type GuestTransaction } from './guest-transaction.ts';
import { openHints, SILENT_MS } from './hints.ts';
import { SILENT_OBSERVER } from './kernel-store.ts';
import {
  IDLE_TIMEOUT_MS,
  RENEWAL_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
  TRANSITION_SETTINGS,
} from './pool.ts';
import { type Fragment, type PoolName, type Sql, type SqlPool, statementOf } from './sql.ts';
import { openMemory } from './witness/store-memory.ts';
import type { Patience, ServiceDatabase, ServiceTransaction } from './service-database.ts';

export interface ServiceStoreOptions<Tx> {
  readonly database: ServiceDatabase<Tx>;
  /** Where Leasehold's tables are. */
  readonly schema: string;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Called with errors that no caller sees, such as a hint that could not be sent. */
  readonly onError: (error: unknown) => void;
}

/** Opens nothing: the service's client connects when a statement is sent. */
export function createServiceStore<Tx>(options: ServiceStoreOptions<Tx>): CoordinatorStore<Tx> {
  const { database, schema, clock, ids, onError } = options;
  const patienceOf = (statementTimeoutMs: number): Patience => ({
    answerMs: statementTimeoutMs + SILENT_MS,
    clock,
  });
  const lane = <Pool extends PoolName>(timeouts: Timeouts, settings?: Settings): SqlPool<Pool> =>
    laneOf(database, schema, {
      patience: patienceOf(timeouts.statementMs),
      settings: {
        ...oursOf(schema),
        lock_timeout: '0',
        statement_timeout: String(timeouts.statementMs),
        idle_in_transaction_session_timeout: String(timeouts.idleMs),
        ...settings,
      },
    });
  const general = lane<'general'>(TRANSITION_TIMEOUTS);
  const renewals = lane<'renewals'>(RENEWAL_TIMEOUTS, TRANSITION_SETTINGS);
  return {
    general,
    transitions: lane(TRANSITION_TIMEOUTS, TRANSITION_SETTINGS),
    renewals,
    slowLane: lane(TRANSITION_TIMEOUTS),
    guestDatabase: {
      transaction: (work) =>
        database.transaction(
          (transaction) => work(new SharedTransaction(transaction, schema)),
          patienceOf(GUEST_MS_MAX),
        ),
    },
    hints: openHints({ schema, sql: general, clock, onError }),
    ...openMemory({}, { sql: renewals, clock, ids, onJump: () => undefined, onError }),
    clock,
    ids,
    observer: SILENT_OBSERVER,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  };
}

/** How long the server lets such a transaction wait, in milliseconds: for a statement, and for its process. */
interface Timeouts {
  readonly statementMs: number;
  readonly idleMs: number;
}

const TRANSITION_TIMEOUTS: Timeouts = {
  statementMs: STATEMENT_TIMEOUT_MS,
  idleMs: IDLE_TIMEOUT_MS,
};

/**
 * A statement and its commit are apart here: a process that stops in between keeps up to a thousand grants locked. A
 * caller that has seen one of them expired meanwhile may find it renewed, by this much later at most.
 */
const RENEWAL_TIMEOUTS: Timeouts = { statementMs: RENEWAL_TIMEOUT_MS, idleMs: 1_000 };

type Settings = Readonly<Record<string, string>>;

/** The settings for our statements, whatever the service has set. */
function oursOf(schema: string): Settings {
  return { ...STATEMENT_SETTINGS, search_path: searchPathOf(schema) };
}

/** Stays as we set it: what we have written must not be lost with the service's own. */
const KEPT = 'synchronous_commit';

/** Only statements of ours, each in a transaction of its own unless one was begun for several. */
function laneOf<Tx, Pool extends PoolName>(
  database: ServiceDatabase<Tx>,
  schema: string,
  { settings, patience }: { readonly settings: Settings; readonly patience: Patience },
): SqlPool<Pool> {
  const begin = <Result>(work: (sql: Sql<Pool>) => Promise<Result>): Promise<Result> =>
    database.transaction(async (transaction) => {
      await set(transaction, settings);
      return work(sqlOf(transaction, schema));
    }, patience);
  return {
    $queryRaw: (query, ...values) => begin((sql) => sql.$queryRaw(query, ...values)),
    $transaction: begin,
  };
}

/** Set by statements of ours in such a transaction: for how long they may wait. The service's code waits as long as it likes. */
const LOCK_TIMEOUT = 'lock_timeout';

/** A transaction in which the service's code and ours take turns. */
class SharedTransaction<Tx> implements GuestTransaction<Tx> {
  readonly sql: Sql<'guests'>;
  readonly #transaction: ServiceTransaction<Tx>;
  #ours: Settings;
  #theirs: Settings | undefined;
  #isOurs = false;

  constructor(transaction: ServiceTransaction<Tx>, schema: string) {
    this.#transaction = transaction;
    this.#ours = oursOf(schema);
    const own = sqlOf(transaction, schema);
    this.sql = {
      $queryRaw: async (query, ...values) => {
        await this.#takeTurn();
        return own.$queryRaw(query, ...values);
      },
    };
  }

  async call<Result>(code: (tx: Tx) => Result | Promise<Result>): Promise<Result> {
    if (this.#isOurs && this.#theirs !== undefined) {
      this.#ours = { ...this.#ours, ...(await read(this.#transaction, [LOCK_TIMEOUT])) };
      await set(this.#transaction, this.#theirs);
    }
    this.#isOurs = false;
    return code(this.#transaction.tx);
  }

  async #takeTurn(): Promise<void> {
    if (this.#isOurs) return;
    this.#theirs ??= await read(
      this.#transaction,
      [...Object.keys(this.#ours), LOCK_TIMEOUT].filter((name) => name !== KEPT),
    );
    await set(this.#transaction, this.#ours);
    this.#isOurs = true;
  }
}

function sqlOf<Pool extends PoolName>(
  transaction: ServiceTransaction<unknown>,
  schema: string,
): Sql<Pool> {
  return {
    async $queryRaw<Rows>(query: TemplateStringsArray | Fragment, ...values: unknown[]) {
      const statement = statementOf(query, values);
      try {
        return (await transaction.query(statement.text, statement.values)) as Rows;
      } catch (error) {
        throw NOT_THERE.has(sqlStateOf(error) ?? '') ? notMigrated(schema, error) : error;
      }
    },
  };
}

/** undefined_function, undefined_table, undefined_column, undefined_object, invalid_schema_name. */
const NOT_THERE: ReadonlySet<string> = new Set(['42883', '42P01', '42703', '42704', '3F000']);

/** A statement of ours finds nothing of ours in the schema, or what an older version has left. */
function notMigrated(schema: string, cause: unknown): LeaseError {
  return new LeaseError(
    'config.invalid',
    `The schema "${schema}" of this database has no tables of this version of Leasehold. ` +
      'Run `leasehold migrate` on it, or pass `schema` if they are in another.',
    { cause },
  );
}

/** Applies settings until the transaction ends. */
async function set(transaction: ServiceTransaction<unknown>, settings: Settings): Promise<void> {
  const calls = Object.keys(settings).map(
    (_name, index) => `set_config($${String(2 * index + 1)}, $${String(2 * index + 2)}, true)`,
  );
  await transaction.query(`select ${calls.join(', ')}`, Object.entries(settings).flat());
}

async function read(transaction: ServiceTransaction<unknown>, names: readonly string[]) {
  const rows = (await transaction.query(
    'select name, current_setting(name) as value from unnest($1::text[]) as name',
    [names],
  )) as { name: string; value: string }[];
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
