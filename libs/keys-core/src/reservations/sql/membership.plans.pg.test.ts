import { expect, test } from 'vitest';
import { openSession } from '../../testing/coordinator-fixture.ts';
import { explaining } from '../../testing/explaining.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { newestPointers, newestReservations } from './membership.ts';

const ROWS = 20_000;

test('the newest rows of a datacenter are found without reading or sorting those of others', async () => {
  const session = await openSession(await openKernel());
  // Rows of dc1 are few and old.
  await session.query(`
    insert into reservation_home (key, reservation_id, recorded_at)
    select 'k' || i, (case when i < 100 then 'dc1.' else 'dc2.' end) || gen_random_uuid(),
      now() + i * interval '1 ms'
    from generate_series(1, ${String(ROWS)}) i;
    insert into reservation_pointer (from_id, to_id, token_floor, recorded_at)
    select reservation_id, 'dc3.' || gen_random_uuid(), 0, recorded_at from reservation_home;
    analyze`);
  const { sql, plans } = explaining(session);

  for (const datacenter of ['dc1', 'dc2', 'dc9']) {
    await newestReservations(sql, datacenter, 64);
    await newestPointers(sql, datacenter, 64);
  }

  expect(plans).toHaveLength(6);
  for (const plan of plans) {
    expect(plan).toMatch(/Index Scan Backward using reservation_(home|pointer)_newest_idx/u);
    expect(plan).not.toMatch(/Sort/u);
  }
});
