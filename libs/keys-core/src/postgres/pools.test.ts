import { describe, expect, test } from 'vitest';
import { renew } from '../grants/sql/renew.ts';
import { listLeases } from '../lists/sql/resource-list.ts';
import type { Store } from './open-store.ts';
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
