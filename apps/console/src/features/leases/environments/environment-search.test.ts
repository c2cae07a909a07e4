import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import { RECENT_ENVIRONMENTS_MS } from '~/resources/list/grant-search.ts';
import { ENVIRONMENT_FIELDS, environmentListInput } from './environment-search.ts';

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
