import { expect, test } from 'vitest';
import { parseSearch } from '../../lib/search.ts';
import { LEASE_FIELDS, fieldSearch, leaseListInput, withField } from './lease-search.ts';

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

test('a filter is set, changed and taken away, and the rest of the search stays', () => {
  const q = '"two words" phase:held namespace:a';

  expect(withField(search(q), 'phase', 'expired')).toBe('"two words" namespace:a phase:expired');
  expect(withField(search(q), 'phase', null)).toBe('"two words" namespace:a');
  expect(withField(search('room-'), 'holder', 'a b')).toBe('room- holder:"a b"');
});

test('a search by a field finds that value, spaces and all', () => {
  expect(search(fieldSearch('holder', 'a worker')).fields).toEqual({ holder: 'a worker' });
});
