import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestController } from '../testing/test-controller.ts';
import { mutate } from '../testing/wire.ts';
import { acquireLease, refOf, wanted } from '../testing/wire-leases.ts';

describe('a restart', () => {
  test('C35 keeps grants, tokens and answers: the holder continues at another controller', async () => {
    const first = await startTestController();
    const { secret } = await first.token('client');
    const again = { key: 'k', idempotencyKey: randomUUID() };
    const lease = await acquireLease(first, secret, again);

    await first.controller.close();
    const second = await startTestController({ databaseUrl: first.databaseUrl });

    const ask = (path: string, input: unknown): Promise<unknown> =>
      mutate(second, path, { secret, input });
    expect(await acquireLease(second, secret, again)).toMatchObject(refOf(lease));
    const renewals = [refOf(lease)];
    expect(await ask('leases.heartbeat', { localTimeMs: 1, renewals })).toMatchObject({
      results: [{ outcome: 'renewed' }],
    });
    expect(await ask('leases.acquire', wanted({ key: 'k' }))).toMatchObject({ outcome: 'held' });
    expect(await ask('leases.release', refOf(lease))).toEqual({ outcome: 'released' });
    const next = await acquireLease(second, secret, { key: 'k' });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
  });
});
