import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { listLeases } from '../lists/index.ts';
import { fragment, type Sql } from '../postgres/sql.ts';
import { fillDatabase, type FilledDatabase, heldLeases } from '../testing/explaining.ts';
import { addGrantedNames, walkOn } from './sql/fill-names.ts';
import { findNames, type NamesAsked } from './sql/find.ts';

const COUNT = 50_000;

/** Environments among all these leases: a look at some pages sees few of them. */
const FEW = 20;

const FILL = `${heldLeases(COUNT + FEW, `'n' || (i % 500) || '.m'`)}
  update lease set face = 'environment', name = 'env-r' || fencing_token
  where fencing_token % ${String(COUNT / FEW)} = 0;
  insert into search_name (kind, namespace, name, text, name_at)
  select face, namespace, name, search_text(namespace, name), char_length(namespace) + 2
  from lease order by fencing_token;
  insert into search_name (kind, namespace, name, text, name_at)
  select 'key', '', 'k' || i, 'k' || i, 1 from generate_series(1, ${String(COUNT / 2)}) i`;

const ASKED: NamesAsked = {
  text: 'r4711',
  kinds: ['key', 'lease', 'environment', 'backend'],
  namespaces: null,
  datacenter: 'local',
  limit: 20,
};

/** A line of a plan that reads the table of names, or of leases, as a whole. */
const WHOLE_TABLE = /Seq Scan on (?:search_name|lease)\b/u;

/** Runs statements, and explains none. */
function reading({ client }: FilledDatabase): Sql<'reads'> {
  return {
    $queryRaw: async (strings: TemplateStringsArray, ...bound: unknown[]) => {
      const { text, values } = fragment(strings, ...bound);
      return (await client.query<object>(text, values)).rows;
    },
  } as never;
}

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

  test.each([
    ['all kinds', ASKED.kinds],
    ['a kind of which few have it', ['environment']],
  ] as const)(
    'what is frequent in the names is not asked of the index of their pieces: %s',
    async (_which, kinds) => {
      const { rows } = await database.client.query<{ count: string }>(
        `select count(*) from search_name n where search_grams(n.text) @@ search_query('r', false)`,
      );
      const plans: string[] = [];
      const analyzing = {
        $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) => {
          const { text, values: bound } = fragment(strings, ...values);
          const answer = await database.client.query<{ 'QUERY PLAN': string }>(
            `explain (analyze, costs off, timing off, summary off) ${text}`,
            bound,
          );
          plans.push(answer.rows.map((row) => row['QUERY PLAN']).join('\n'));
          return [];
        },
      } as never;
      await findNames(analyzing, { ...ASKED, text: 'r', kinds });

      expect(Number(rows[0]?.count)).toBe(COUNT + FEW);
      const scans =
        plans.join('\n').match(/Bitmap Index Scan on search_name_grams_idx[^\n]*/gu) ?? [];
      expect(scans).not.toEqual([]);
      for (const scan of scans) expect(scan).toContain('never executed');
    },
  );

  test.each([
    ['has', 'r'],
    ['begins with', 'env-r'],
  ])(
    'what the name of one kind %s is found among many names of other kinds',
    async (_how, text) => {
      const found = await findNames(reading(database), { ...ASKED, text, kinds: ['environment'] });

      const names = found.items.map(({ kind, name }) => `${kind} ${name}`);
      expect(new Set(names).size).toBe(FEW);
      expect(names.every((name) => name.startsWith('environment env-r'))).toBe(true);
      expect(found.isCut).toBe(false);
    },
  );

  test('an answer for one kind says when its names are too many to be looked through', async () => {
    const inKeys = { ...ASKED, text: 'k', kinds: ['lease'] } as const;

    const { items, isCut } = await findNames(reading(database), inKeys);

    expect([items, isCut]).toEqual([[], true]);
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
