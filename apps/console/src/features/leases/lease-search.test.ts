import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search/search.ts';
import { LEASE_FIELDS, leaseListInput } from './lease-search.ts';

test('a namespace of a search of leases is without its children', () => {
  const search = parseSearch('settlement- namespace:billing.payouts', LEASE_FIELDS);
  const input = leaseListInput({ search, sort: 'name', direction: 'asc', after: null });

  expect(input).toMatchObject({ prefix: 'settlement-', namespace: 'billing.payouts' });
  expect(input).not.toHaveProperty('includeChildren');
});
