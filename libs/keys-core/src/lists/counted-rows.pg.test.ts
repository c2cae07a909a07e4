import { expect, test } from 'vitest';
import { RESERVED_NAMESPACE } from '../kernel/resource.ts';
import { age, granted, openKernel } from '../testing/kernel-fixture.ts';
import { listLeases, type ResourceFilter } from './sql/resource-list.ts';

test('what somebody waits for, what is overdue, and what is not of Leasehold itself can be listed', async () => {
  const kernel = await openKernel();
  const { general, reads } = kernel.store;
  for (const name of ['held', 'waited', 'overdue']) {
    const { leaseId } = await granted(kernel, { name });
    if (name === 'overdue') await age(kernel, leaseId, 120_000);
  }
  await granted(kernel, { namespace: RESERVED_NAMESPACE, name: 'retention' });
  await general.$queryRaw`
    insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
    select l.face, l.namespace, l.name, gen_random_uuid(), '{}', 'p',
      clock_timestamp() + case l.name when 'waited' then interval '1 minute' else interval '-1 second' end
    from lease l where l.name in ('waited', 'held')
    returning id`;
  const listed = async (filter: Partial<ResourceFilter>): Promise<string[]> => {
    const rows = await listLeases(
      reads,
      'lease',
      { includeChildren: true, namespaces: null, ...filter },
      { by: 'name', direction: 'asc', after: null, limit: 10 },
    );
    return rows.map(({ name }) => name);
  };

  expect(await listed({ is: 'waited' })).toEqual(['waited']);
  expect(await listed({ is: 'overdue' })).toEqual(['overdue']);
  expect(await listed({ phase: 'held' })).toEqual(['retention', 'held', 'waited']);
  expect(await listed({ phase: 'held', withoutOwn: true })).toEqual(['held', 'waited']);
});
