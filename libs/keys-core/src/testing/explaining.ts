import type pg from 'pg';
import type { Sql } from '../postgres/rows.ts';
import { fragment } from '../postgres/sql.ts';

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
