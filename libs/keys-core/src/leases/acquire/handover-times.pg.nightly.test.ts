import { expect, test } from 'vitest';
import { acquired, inLine, openLeases } from '../../testing/lease-fixture.ts';

test('I5 I10 what its holder lets expire goes to the first in line within a second', async () => {
  const on = await openLeases();
  const names = ['a', 'b', 'c'];
  for (const name of names) await acquired(on, { name, ttlMs: 1_000 });
  const waiting = await Promise.all(names.map((name) => inLine(on, 'next', { name })));

  await Promise.all(waiting.map(({ answer }) => answer));

  const vacant = await on.store.general.$queryRaw<{ ms: number }[]>`
    select date_part('epoch', taken.at - expired.at) * 1000 as ms
    from lease_event taken join lease_event expired using (name)
    where taken.kind = 'taken_over' and expired.kind = 'expired'`;
  // The quickest of three: what else the machine does only makes a grant later.
  expect(vacant).toHaveLength(names.length);
  expect(Math.min(...vacant.map(({ ms }) => ms))).toBeLessThan(1_000);
});
