import { DEFAULT_SCHEMA } from '@leasehold/service-kit';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from '../postgres/generated/client.ts';
import type { RecordSql } from '../postgres/records.ts';
import { type Fragment, statementOf } from '../postgres/sql.ts';

/** What a read of records is sent with; any pool's. */
type ExplainingSql = RecordSql<never>;

/** A stand-in for a pool that explains statements and typed queries instead of running them. */
export function explaining(client: pg.Client): { sql: ExplainingSql; plans: string[] } {
  const plans: string[] = [];
  const explain = async (text: string, values: unknown[]): Promise<void> => {
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
  };
  const pool = Object.assign(new pg.Pool(), {
    query: async ({ text, values }: { text: string; values: unknown[] }) => {
      await explain(text, values);
      return { fields: [], rows: [], rowCount: 0 };
    },
  });
  const sql: ExplainingSql = {
    $queryRaw: async <Rows>(query: TemplateStringsArray | Fragment, ...values: unknown[]) => {
      const statement = statementOf(query, values);
      const isClock = statement.text === 'select clock_timestamp() as now';
      // What follows is planned by the database's time.
      if (isClock) return (await client.query(statement.text)).rows as Rows;
      await explain(statement.text, statement.values);
      return [] as Rows;
    },
    records: new PrismaClient({ adapter: new PrismaPg(pool, { schema: DEFAULT_SCHEMA }) }),
  };
  return { sql, plans };
}

/** A filled database, on which statements are explained. */
export interface FilledDatabase {
  readonly client: pg.Client;
  /** Explains statements, and collects their plans. */
  readonly explaining: () => { sql: ExplainingSql; plans: string[] };
  /** The plans of one read. It may fail: an explained statement answers no rows. */
  readonly planOf: (read: (sql: ExplainingSql) => Promise<unknown>) => Promise<string>;
  readonly close: () => Promise<void>;
}

/**
 * Fills a database with rows by SQL, and has their statistics gathered: of all rows, as a sample differs from run to
 * run, and so may a plan.
 */
export async function fillDatabase(databaseUrl: string, fill: string): Promise<FilledDatabase> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(fill);
  await client.query('set default_statistics_target = 1000');
  await client.query('analyze');
  return {
    client,
    explaining: () => explaining(client),
    async planOf(read) {
      const { sql, plans } = explaining(client);
      await read(sql).catch(() => undefined);
      return plans.join('\n');
    },
    close: () => client.end(),
  };
}

/** SQL that inserts this many held leases, `r1` and so on. `namespace` is SQL, and may name `i`. */
export function heldLeases(count: number, namespace = `'n'`): string {
  return `
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
    select 'lease', ${namespace}, 'r' || i, gen_random_uuid(), i, 'h', 'p', 60000, 20000, 50000, 50000,
      now(), now(), now() + interval '1 minute'
    from generate_series(1, ${String(count)}) i;`;
}

/** A statement whose plan a connection keeps. */
export interface KeptPlan {
  readonly statement: string;
  readonly plan: string;
}

/**
 * The plans of the statements that the connections of a pool keep, and those that they would make
 * once PostgreSQL knows the few rows that are there: it plans again after `vacuum` and `analyze`.
 */
export async function keptPlans(pool: pg.Pool, databaseUrl: string): Promise<KeptPlan[]> {
  const kept: KeptPlan[] = [];
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()));
  // By a session of its own: a statement of the pool has a time limit, and a vacuum may take longer.
  const maintenance = new pg.Client({ connectionString: databaseUrl });
  await maintenance.connect();
  for (const preparation of ['', 'vacuum', 'analyze']) {
    await maintenance.query(preparation);
    for (const client of clients) kept.push(...(await plansOf(client)));
  }
  await maintenance.end();
  for (const client of clients) client.release();
  return kept;
}

async function plansOf(client: pg.PoolClient): Promise<KeptPlan[]> {
  const kept: KeptPlan[] = [];
  const { rows } = await client.query<{ name: string; statement: string; count: number }>(
    'select name, statement, cardinality(parameter_types) as count from pg_prepared_statements',
  );
  for (const { name, statement, count } of rows) {
    const values = count === 0 ? '' : `(${Array.from({ length: count }, () => 'null').join()})`;
    const lines = await client.query<{ 'QUERY PLAN': string }>(
      `explain execute ${pg.escapeIdentifier(name)}${values}`,
    );
    kept.push({ statement, plan: lines.rows.map((row) => row['QUERY PLAN']).join('\n') });
  }
  return kept;
}
