import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import { LEASE_FIELDS, leaseListInput } from './lease-search.ts';

test('a namespace in a search for leases does not include its children', () => {
  const search = parseSearch('settlement- namespace:billing.payouts', LEASE_FIELDS);
  const input = leaseListInput({ search, sort: 'name', direction: 'asc', after: null });

  expect(input).toMatchObject({ contains: 'settlement-', namespace: 'billing.payouts' });
  expect(input).not.toHaveProperty('includeChildren');
});
