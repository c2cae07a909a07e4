import { expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import { refusalIn, refusalOf } from './idempotency.ts';

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
