import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import {
  ENVIRONMENT_FIELDS,
  environmentListInput,
  LEASE_FIELDS,
  leaseListInput,
  RECENT_ENVIRONMENTS_MS,
} from '~/resources/list/grant-search.ts';

test('a namespace in a search for leases does not include its children', () => {
  const search = parseSearch('settlement- namespace:billing.payouts', LEASE_FIELDS);
  const input = leaseListInput({ search, sort: 'name', direction: 'asc', after: null });

  expect(input).toMatchObject({ contains: 'settlement-', namespace: 'billing.payouts' });
  expect(input).not.toHaveProperty('includeChildren');
});

test('environments can be searched by action, and stay listed longer than leases', () => {
  const search = parseSearch('staging- action:deploy namespace:shop', ENVIRONMENT_FIELDS);
  const input = environmentListInput({ search, sort: 'name', direction: 'asc', after: null });

  expect(input).toMatchObject({
    contains: 'staging-',
    action: 'deploy',
    namespace: 'shop',
    endedWithinMs: RECENT_ENVIRONMENTS_MS,
  });
});
