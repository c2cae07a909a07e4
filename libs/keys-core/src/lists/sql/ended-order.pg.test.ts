import { expect, test } from 'vitest';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { listKeys } from './resource-list.ts';

test('in the order of their ends, what was released is at the time when it was released', async () => {
  const { store } = await openKernel();
  await store.general.$executeRaw`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, released_at, end_reason)
    select 'key', '', v.name, gen_random_uuid(), 1, 'h', 'p', 60000, 20000, 50000, 50000, now() - interval '1 hour',
      now() - interval '1 hour', now() + v.expires * interval '1 minute', now() + v.released * interval '1 minute',
      case when v.released is not null then 'released' end
    from (values ('held', 2, null), ('released', 1, -5), ('expired', -9, null), ('held longer', 3, null))
      as v (name, expires, released)`;
  const filter = { includeChildren: true, namespaces: null };

  const rows = await listKeys(store.general, filter, {
    by: 'expiresAt',
    direction: 'asc',
    after: null,
    limit: 10,
  });

  expect(rows.map(({ name }) => name)).toEqual(['expired', 'released', 'held', 'held longer']);
});
