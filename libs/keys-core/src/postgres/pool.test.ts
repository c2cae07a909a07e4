import { describe, expect, test } from 'vitest';
import { renew } from '../grants/sql/renew.ts';
import { listLeases } from '../lists/sql/resource-list.ts';
import type { Store } from './open-store.ts';
import { preparedOptions, UNPREPARED } from './pool.ts';
import type { Sql } from './sql.ts';

/** Checked by the compiler; never called. */
function check(store: Store): unknown[] {
  const filter = { includeChildren: true, namespaces: null };
  const page = { by: 'name', direction: 'asc', after: null, limit: 1 } as const;
  return [
    listLeases(store.reads, 'lease', filter, page),
    // @ts-expect-error -- a list must not take a connection from renewals
    listLeases(store.renewals, 'lease', filter, page),
    // @ts-expect-error -- nor from callers who wait for an answer
    listLeases(store.general, 'lease', filter, page),
    renew(store.renewals, 'lease', []),
    // @ts-expect-error -- nothing may starve renewals
    renew(store.general, 'lease', []),
    // @ts-expect-error -- a transaction is on the connections of its pool
    store.general.$transaction((tx) => renew(tx, 'lease', [])),
    // @ts-expect-error -- a statement for two pools is not one for any pool
    (sql: Sql<'reads' | 'guests'>) => listLeases(sql, 'lease', filter, page),
  ];
}

describe('a statement is bound to its pool', () => {
  test('and another pool, or a transaction on it, is a type error', () => {
    expect(check).toBeTypeOf('function');
  });
});

describe('prepared statements', () => {
  test('each text has one name, different from that of other texts, and short enough for PostgreSQL', () => {
    const { prepare } = preparedOptions('postgres://h/db');
    const statements = ['select 1', 'select 2', 'select 1'].map((text) => prepare?.(text));
    const names = statements.map((statement) => statement?.name ?? '');

    expect(statements.map((statement) => statement?.text)).toEqual([
      'select 1',
      'select 2',
      'select 1',
    ]);
    expect(names[0]).toBe(names[2]);
    expect(new Set(names).size).toBe(2);
    for (const given of names) expect(given).toMatch(/^[a-z0-9_]{10,63}$/u);
  });

  test('are not used when the URL names a transaction pooler', () => {
    expect(preparedOptions('postgres://h/db?a=b&pgbouncer=true')).toBe(UNPREPARED);
    expect(preparedOptions('postgres://h/db?pgbouncer=false')).not.toBe(UNPREPARED);
  });
});
