import { expect, test } from 'vitest';
import { isDiskFull, isOutOfConnections, isReadOnly } from './database-errors.ts';

const failed = (code: string) => Object.assign(new Error('failed'), { code, severity: 'ERROR' });

test.each([
  ['a full disk', isDiskFull, '53100'],
  ['a lack of connections', isOutOfConnections, '53300'],
  ['a read-only database', isReadOnly, '25006'],
])('%s is found in what caused an error', (_what, isIt, code) => {
  expect(isIt(new Error('outer', { cause: new Error('inner', { cause: failed(code) }) }))).toBe(
    true,
  );
  expect(isIt(new Error('outer', { cause: failed('40001') }))).toBe(false);
});

test('an error that is its own cause is nothing of these, and the search for it ends', () => {
  const error = new Error('of other code');
  error.cause = error;

  expect([isReadOnly(error), isDiskFull(error), isOutOfConnections(error)]).toEqual([
    false,
    false,
    false,
  ]);
});
