import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { fillDatabase, type FilledDatabase } from '../../testing/explaining.ts';
import { openKernel, type Kernel } from '../../testing/kernel-fixture.ts';
import { type AuditEntry, type AuditListInput, listAudit, writeAudit } from './audit.ts';

const ENTRY: AuditEntry = {
  actor: 'ada@example.com',
  role: 'operator',
  action: 'keys.revoke',
  resource: 'lease:0190',
};

async function audited(...entries: Partial<AuditEntry>[]): Promise<Kernel> {
  const kernel = await openKernel();
  for (const entry of entries) await writeAudit(kernel.store.general, { ...ENTRY, ...entry });
  return kernel;
}

async function reasons({ store }: Kernel, input: Partial<AuditListInput>): Promise<unknown[]> {
  const { items } = await listAudit(store.general, { limit: 100, ...input });
  return items.map(({ reason }) => reason);
}

describe('the text of a search of the audit', () => {
  test.each([
    ['ROADMAP', ['of a key']],
    ['boards.eu/q4-road', ['of a key']],
    ['odd%2Fspace/n', ['of an odd one']],
    ['rone:fra-', ['of a drone']],
    ['OF A DR', ['of a drone']],
    ['omar@', ['of a person', 'of a drone']],
    ['100%', []],
    ['_', []],
    ['', ['of a person', 'of a drone', 'of an odd one', 'of a key']],
  ])(
    '%j finds it in the resource as printed, in the reason and in the actor',
    async (text, found) => {
      const kernel = await audited(
        { reason: 'of a key', detail: { face: 'key', namespace: 'boards.eu', name: 'q4-roadmap' } },
        { reason: 'of an odd one', detail: { face: 'key', namespace: 'odd/space', name: 'name' } },
        { reason: 'of a drone', resource: 'drone:fra-2', actor: 'omar@example.com' },
        { reason: 'of a person', resource: 'person:1', detail: { email: 'Omar@example.com' } },
      );

      expect(await reasons(kernel, { text })).toEqual(found);
    },
  );
});

test.each([
  ['freeze:1', ['one']],
  ['2', ['all']],
  ['prod', ['of a lease', 'one']],
  ['shop/prod', ['one']],
  ['shop', ['all']],
  ['sho', []],
])('%j finds what an act concerned, by its id and by its name', async (resource, found) => {
  const kernel = await audited(
    { reason: 'one', resource: 'freeze:1', detail: { namespace: 'shop', name: 'prod' } },
    { reason: 'all', resource: 'freeze:2', detail: { namespace: 'shop', name: null } },
    { reason: 'of a lease', resource: 'lease:3', detail: { namespace: 'team', name: 'prod' } },
  );

  expect(await reasons(kernel, { resource })).toEqual(found);
});

test('signing in is listed alone, or left out', async () => {
  const kernel = await audited(
    { reason: 'act' },
    { reason: 'in', action: 'people.signIn' },
    { reason: 'locked', action: 'people.lockOut' },
  );

  expect(await reasons(kernel, { signIns: true })).toEqual(['locked', 'in']);
  expect(await reasons(kernel, { signIns: false })).toEqual(['act']);
  expect(await reasons(kernel, {})).toHaveLength(3);
});

test('the last minutes are those of the database', async () => {
  const kernel = await audited({ reason: 'old' }, { reason: 'new' });
  await kernel.store.general.$executeRaw`
    update audit set at = at - interval '2 hours' where reason = 'old'`;

  expect(await reasons(kernel, { windowMinutes: 60 })).toEqual(['new']);
  expect(await reasons(kernel, { windowMinutes: 180 })).toEqual(['new', 'old']);
});

describe('an audit of many entries', () => {
  let filled: FilledDatabase;
  let url: string;
  beforeAll(async () => {
    const database = await createTestDatabase();
    ({ url } = database);
    filled = await fillDatabase(
      url,
      // Most of the ids are not given, as those of a database that has been restored.
      `insert into audit (id, actor, role, action, resource, reason, detail)
       select i * 1000, 'a' || i % 100, 'operator', 'keys.revoke', 'lease:' || i, 'reason ' || i,
         jsonb_build_object('face', 'key', 'namespace', 'boards.eu', 'name', 'board-' || i)
       from generate_series(1, 2500) i`,
    );
    return async () => {
      await filled.close();
      await database.drop();
    };
  });

  test('a page looks through a bounded number of them, and the next one goes on there', async () => {
    const { store } = await openKernel({ databaseUrl: url });
    const pages: number[] = [];
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listAudit(store.general, { text: 'board-12', limit: 100, cursor });
      pages.push(page.items.length);
      found.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);

    // board-1200 to 1299, 120 to 129, and 12.
    expect(found).toEqual([...found].sort((a, b) => Number(b) - Number(a)));
    expect(new Set(found).size).toBe(111);
    expect(pages.slice(0, 2)).toEqual([0, 100]);
  });

  test('an index bounds what is looked through', async () => {
    const plan = await filled.planOf((sql) => {
      const answering = {
        $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) => {
          const rows: unknown[] = await sql.$queryRaw(strings, ...values);
          return strings[0]?.includes('max(a.id)') === true ? [{ end: '2500001' }] : rows;
        },
      };
      return listAudit(answering as never, { text: 'board-12', limit: 100 });
    });

    expect(plan).toContain('audit_pkey');
    expect(plan).not.toMatch(/Seq Scan on audit\b/u);
  });
});
