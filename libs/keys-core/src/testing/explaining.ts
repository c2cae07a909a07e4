import pg from 'pg';
import { fragment, type Sql } from '../postgres/sql.ts';

/** A stand-in for the client that explains a statement instead of running it. */
export function explaining(client: pg.Client): { sql: Sql<never>; plans: string[] } {
  const plans: string[] = [];
  const sql = {
    $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) => {
      const query = fragment(strings, ...values);
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(
        `explain ${query.text}`,
        query.values,
      );
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return [];
    },
  } as unknown as Sql<never>;
  return { sql, plans };
}

/** A filled database, on which statements are explained. */
export interface FilledDatabase {
  readonly client: pg.Client;
  /** Explains statements, and collects their plans. */
  readonly explaining: () => { sql: Sql<never>; plans: string[] };
  /** The plans of one read. It may fail: an explained statement answers no rows. */
  readonly planOf: (read: (sql: Sql<never>) => Promise<unknown>) => Promise<string>;
  readonly close: () => Promise<void>;
}

/** Fills a database with rows by SQL, and has their statistics gathered. */
export async function fillDatabase(databaseUrl: string, fill: string): Promise<FilledDatabase> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(fill);
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
export async function keptPlans(pool: pg.Pool): Promise<KeptPlan[]> {
  const kept: KeptPlan[] = [];
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()));
  for (const preparation of ['', 'vacuum', 'analyze']) {
    await clients[0]?.query(preparation);
    for (const client of clients) kept.push(...(await plansOf(client)));
  }
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
