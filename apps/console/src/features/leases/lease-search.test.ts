import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search/search.ts';
import { LEASE_FIELDS, leaseListInput, leaseSearchProblems } from './lease-search.ts';

const search = (text: string) => parseSearch(text, LEASE_FIELDS);
const asked = (text: string) =>
  leaseListInput({ search: search(text), sort: 'name', direction: 'asc', after: null });

test('what the address says is what is asked for', () => {
  expect(asked('settlement- holder:pay-1 phase:held namespace:billing.payouts')).toMatchObject({
    prefix: 'settlement-',
    holder: 'pay-1',
    phase: 'held',
    namespace: 'billing.payouts',
  });
  expect(asked('"settlement-eu"')).toMatchObject({ name: 'settlement-eu' });
  expect(asked('phase:nonsense')).not.toHaveProperty('phase');
});

test('what no lease can be is said, and not asked for', () => {
  expect(leaseSearchProblems(search('phase:nonsense lease:b39f'))).toEqual([
    'phase: is one of free, held, expiring, expired, any',
    'lease: is a whole lease id',
  ]);
  expect(
    leaseSearchProblems(search('phase:held lease:b39f7a4a-0d2c-4a55-9f6a-6b8d7c1a2f30')),
  ).toEqual([]);
});
