import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { listLeases } from '../lists/index.ts';
import { fillDatabase, type FilledDatabase, heldLeases } from '../testing/explaining.ts';
import { addGrantedNames, walkOn } from './sql/fill-names.ts';
import { findNames, type NamesAsked } from './sql/find.ts';

const COUNT = 50_000;

const FILL = `${heldLeases(COUNT, `'n' || (i % 500) || '.m'`)}
  insert into search_name (kind, namespace, name, text, name_at)
  select face, namespace, name, search_text(namespace, name), char_length(namespace) + 2 from lease`;

const ASKED: NamesAsked = {
  text: 'r4711',
  kinds: ['key', 'lease', 'environment', 'backend'],
  namespaces: null,
  datacenter: 'local',
  limit: 20,
};

/** A line of a plan that reads the table of names, or of leases, as a whole. */
const WHOLE_TABLE = /Seq Scan on (?:search_name|lease)\b/u;

describe('plans of searches', () => {
  let database: FilledDatabase;
  beforeAll(async () => {
    const copy = await createTestDatabase();
    database = await fillDatabase(copy.url, FILL);
    return async () => {
      await database.close();
      await copy.drop();
    };
  });

  test.each([
    ['anybody', null],
    ['a limited caller', ['n7', 'n8.m']],
  ])(
    'a search by %s reads no table as a whole, and starts no workers',
    async (_who, namespaces) => {
      const plan = await database.planOf((sql) => findNames(sql, { ...ASKED, namespaces }));

      expect(plan).toContain('search_name_grams_idx');
      expect(plan).toContain(
        namespaces === null ? 'Sample Scan on search_name' : 'search_name_pkey',
      );
      expect(plan).toContain('Index Scan using lease_pkey');
      expect(plan).not.toMatch(WHOLE_TABLE);
      expect(plan).not.toContain('Gather');
    },
  );

  test('what is frequent in the names is not asked of the index of their pieces', async () => {
    const { rows } = await database.client.query<{ count: string }>(
      `select count(*) from search_name n where search_grams(n.text) @@ search_query('r', false)`,
    );
    const plans: string[] = [];
    const analyzing = {
      $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) => {
        const { fragment } = await import('../postgres/sql.ts');
        const { text, values: bound } = fragment(strings, ...values);
        const answer = await database.client.query<{ 'QUERY PLAN': string }>(
          `explain (analyze, costs off, timing off, summary off) ${text}`,
          bound,
        );
        plans.push(answer.rows.map((row) => row['QUERY PLAN']).join('\n'));
        return [];
      },
    } as never;
    await findNames(analyzing, { ...ASKED, text: 'r' });

    expect(Number(rows[0]?.count)).toBe(COUNT);
    expect(plans.join('\n')).toMatch(/Bitmap Heap Scan on search_name[^\n]*never executed/u);
  });

  test('a list by a rare part of a name finds its rows by the index of names', async () => {
    const { sql, plans } = database.explaining();
    const counting = {
      $queryRaw: async (...query: Parameters<typeof sql.$queryRaw>) => {
        const rows = await sql.$queryRaw(...query);
        // As if a look had found none.
        return plans.length === 2 ? [{ count: 0, isFilled: true }] : rows;
      },
    } as typeof sql;
    const order = { by: 'name', direction: 'asc', after: null, limit: 101 } as const;
    const filter = { includeChildren: true, namespaces: null, contains: 'r4711' };
    await listLeases(counting, 'lease', filter, order);

    expect(plans.at(-1)).toContain('search_name_grams_idx');
    expect(plans.at(-1)).not.toMatch(WHOLE_TABLE);
  });

  test('names are filled by ranges of keys, and no statement reads a whole table', async () => {
    const plans = [
      await database.planOf((sql) => addGrantedNames(sql)),
      await database.planOf((sql) => walkOn(sql, 'leases')),
      await database.planOf((sql) => walkOn(sql, 'names')),
    ];

    expect(plans[1]).toContain('lease_pkey');
    expect(plans[2]).toContain('search_name_pkey');
    for (const plan of plans) expect(plan).not.toMatch(WHOLE_TABLE);
  });
});
