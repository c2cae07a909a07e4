import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import type { CoordinatedLease, LeaseUseCase } from '@leasehold/keys-core/leases';
import { runSql, startService, type Service } from './testing/service.ts';
import { whileHeld } from './while-held.ts';

async function aLease(
  { coordinator }: Service,
  ttlMs: number,
): Promise<{ lease: LeaseUseCase; granted: CoordinatedLease }> {
  const leaseId = randomUUID();
  const lease: LeaseUseCase = {
    key: () => leaseId,
    scope: () => ({ namespace: ['held'], key: 'a' }),
    durationMs: () => ttlMs,
    setDeadline: () => undefined,
  };
  const granted = await coordinator.acquire(lease, 0);
  if (granted.outcome === 'held') throw new Error(`held by ${granted.by}`);
  return { lease, granted };
}

describe('work under a lease', () => {
  test('goes on for as long as it takes, and its result is answered', async () => {
    const service = await startService('runner-liveness.sql');
    const ref = await aLease(service, 6_000);
    const [granted] = await runSql<{ expires_at: Date }>(
      service.databaseUrl,
      'select expires_at from lease',
    );

    const result = await whileHeld(service, ref, async () => {
      // Until well after the time that it was granted for.
      await waitUntil(async () => {
        const [row] = await runSql<{ at: Date }>(
          service.databaseUrl,
          'select clock_timestamp() as at',
        );
        return Number(row?.at) > Number(granted?.expires_at) + 500;
      });
      return 'done';
    });

    expect(result).toBe('done');
    expect(await service.coordinator.releaseOk(ref.lease, undefined)).toBe('released');
  });

  test('I8 is told to stop when a heartbeat is refused, and is not waited for', async () => {
    const service = await startService('runner-liveness.sql');
    const ref = await aLease(service, 6_000);
    let told: AbortSignal | undefined;

    const working = whileHeld(service, ref, (signal) => {
      told = signal;
      return new Promise(() => undefined);
    });
    working.catch(() => undefined);
    await runSql(
      service.databaseUrl,
      `update lease set end_reason = 'revoked', released_at = clock_timestamp()`,
    );

    await expect(working).rejects.toMatchObject({ code: 'lease.lost' });
    expect(told?.aborted).toBe(true);
  });

  test('C45 that throws is over at once: no heartbeat follows', async () => {
    const service = await startService('runner-liveness.sql');
    const failure = new Error('no');
    const ref = await aLease(service, 1_000);

    await expect(whileHeld(service, ref, () => Promise.reject(failure))).rejects.toBe(failure);
    await waitUntil(async () => {
      const rows = await runSql(
        service.databaseUrl,
        'select from lease where expires_at < clock_timestamp()',
      );
      return rows.length === 1;
    });

    expect(
      await runSql(service.databaseUrl, 'select from lease where renewed_at > granted_at'),
    ).toEqual([]);
  });
});
