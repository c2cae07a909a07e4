import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { LeaseHeldError } from './lease/lease.ts';
import { useController } from './testing/controller-fixture.ts';
import { failureOf } from './testing/outcomes.ts';

const { aClient } = useController();

describe.each(['ws', 'http'] as const)('leases that several hold at once, over %s', (transport) => {
  test('as many hold a key as its definition has permits; one more is told what is held', async () => {
    const namespace = `permits-${transport}`;
    const definition = aClient({ transport, holder: 'me' }).defineLease([namespace], {
      permits: { perKey: 2, total: 3 },
    });
    await using one = await definition.acquire('k');
    await using two = await definition.acquire('k');

    const refused = await failureOf(definition.acquire('k', { waitMs: 0 }));

    expect(refused).toBeInstanceOf(LeaseHeldError);
    expect(refused).toMatchObject({
      heldBy: {
        by: 'me',
        pool: { kind: 'permit', used: 2, permits: 2, total: { used: 2, permits: 3 } },
      },
    });
    expect(BigInt(two.fencingToken)).toBeGreaterThan(BigInt(one.fencingToken));
  });

  test('many share a key, nobody has it alone beside them, and a holder shares what it had alone', async () => {
    const documents = aClient({ transport }).defineLease(['documents']);
    const key = randomUUID();
    const first = await documents.acquire(key);
    const alone = await documents.tryAcquire(key, { mode: 'shared' });

    await first.downgrade();
    await using second = await documents.acquire(key, { mode: 'shared', waitMs: 0 });
    const writer = await documents.tryAcquire(key);

    expect([alone.outcome, writer.outcome]).toEqual(['held', 'held']);
    expect([first.isHeld, second.isHeld]).toEqual([true, true]);
    expect(await first.release()).toBe('released');
  });
});
