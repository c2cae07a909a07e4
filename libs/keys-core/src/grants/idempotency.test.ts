import { expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import { canonicalJson, refusalIn, refusalOf } from './index.ts';

test('a refusal is recorded once: what a record says is not recorded again', () => {
  const error = new LeaseError('key.unheld');

  const recorded = refusalOf(error);

  expect(recorded).toEqual({ error: { code: 'key.unheld', message: error.message, details: {} } });
  const again = refusalIn(recorded);
  expect(again).toMatchObject({ code: 'key.unheld', message: error.message });
  expect(refusalOf(again)).toBeUndefined();
});

test('one error that several requests failed with is recorded for each', () => {
  const error = new LeaseError('key.unheld');

  expect(refusalOf(error)).toEqual(refusalOf(error));
});

test.each([
  [{ a: 1, b: [2, { d: null, c: 'x' }] }, '{"a":1,"b":[2,{"c":"x","d":null}]}'],
  [{ b: 1, a: { z: 0 } }, '{"a":{"z":0},"b":1}'],
  [{ a: undefined, b: 2 }, '{"b":2}'],
  [JSON.parse('{"__proto__":1,"a":2}') as unknown, '{"__proto__":1,"a":2}'],
  [{ at: new Date(0) }, '{"at":{}}'],
])('equal values have one text, whatever the order of their fields: %j', (value: unknown, text) => {
  expect(canonicalJson(value)).toBe(text);
});
