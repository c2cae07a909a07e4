import type { EventLag } from '@leasehold/api/contract';
import { expect, test } from 'vitest';
import { remedyOf } from './event-lag.ts';

function culprit(
  change: Partial<NonNullable<EventLag['culprit']>>,
): NonNullable<EventLag['culprit']> {
  return {
    ...{ pid: null, applicationName: null, database: null, preparedAs: null },
    ...{ ageMs: null, state: null, queryAgeMs: null },
    ...change,
  };
}

test.each([
  ['a session is ended by its process', { pid: 4_711 }, 'select pg_terminate_backend(4711);'],
  [
    'a prepared transaction is undone by its name',
    { preparedAs: "o'neil", database: 'shop' },
    "rollback prepared 'o''neil';",
  ],
  ['one that Leasehold may not see is looked for', {}, 'order by xact_start limit 1;'],
])('%s', (_promise, change, sql) => {
  expect(remedyOf(culprit(change)).sql).toContain(sql);
});
