import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { revoke } from '../grants/sql/revoke.ts';
import type { Clock } from '../kernel/clock.ts';
import { aCoordinator, acquired, aUseCase } from '../testing/coordinator-fixture.ts';
import {
  age,
  granted,
  type Kernel,
  openKernel,
  TRUSTING_WATCH,
} from '../testing/kernel-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';
import type { LeaseUseCase } from './coordinator-types.ts';

/** One lease for `ttlMs`, which a coordinator has just acquired. */
async function aHolding(ttlMs: number, hooks: Partial<LeaseUseCase<string>> = {}, on?: Kernel) {
  const kernel = on ?? (await openKernel());
  const coordinator = aCoordinator(kernel);
  const lease = aUseCase('a', { durationMs: () => ttlMs, ...hooks });
  const grant = await acquired(coordinator, lease);
  return { kernel, coordinator, lease, grant };
}

const revoked = (kernel: Kernel, leaseId: string, mode: 'graceful' | 'force') =>
  revoke(kernel.store.general, 'lease', [
    { leaseId, mode, abandon: false, actor: 'op', reason: 'r', namespaces: null },
  ]);

/** What has become of the lease, and whether it was ever renewed. */
async function rowOf({ store }: Kernel): Promise<{ ended: string | null; wasRenewed: boolean }> {
  const [row] = await store.general.$queryRaw<{ ended: string | null; wasRenewed: boolean }[]>`
    select end_reason as ended, renewed_at > granted_at as "wasRenewed" from lease`;
  return row ?? { ended: 'no row', wasRenewed: false };
}

/** Waits until the database's clock is past the time that the lease was granted for. */
async function untilLate({ store }: Kernel, ttlMs: number): Promise<void> {
  await waitUntil(async () => {
    const [row] = await store.general.$queryRaw<{ isLate: boolean }[]>`
      select clock_timestamp() > granted_at + ${ttlMs + 300} * interval '1 millisecond' as "isLate"
      from lease`;
    return row?.isLate;
  });
}

/** A kernel for which a moment comes when the test lets time pass, and not before. */
async function inPassingTime(): Promise<{ on: Kernel; pass: (ms: number) => Promise<void> }> {
  const time = await passingTime();
  const moments = new Set<{ readonly atMs: number; readonly fn: () => void }>();
  const come = (): void => {
    for (const moment of [...moments]) {
      if (moment.atMs <= time.clock.nowMs() && moments.delete(moment)) moment.fn();
    }
  };
  const clock: Clock = {
    nowMs: () => time.clock.nowMs(),
    at(atMs, fn) {
      const moment = { atMs, fn };
      moments.add(moment);
      setImmediate(come);
      return () => {
        moments.delete(moment);
      };
    },
  };
  const on = await time.open({ clock, clockWatch: TRUSTING_WATCH });
  await on.store.witness.look();
  const pass = async (ms: number): Promise<void> => {
    await time.pass(ms);
    come();
  };
  return { on, pass };
}

/** When the lease was last renewed, by the database's clock. */
async function renewedAtMs({ store }: Kernel): Promise<number> {
  const [row] = await store.general.$queryRaw<{ ms: number }[]>`
    select date_part('epoch', renewed_at) * 1000 as ms from lease`;
  return row?.ms ?? NaN;
}

const forever = (): Promise<never> => new Promise(() => undefined);

describe('work under a lease', () => {
  test('C12 C26 goes on for longer than the lease was granted for; its result is released with the lease', async () => {
    const released: unknown[] = [];
    const { on, pass } = await inPassingTime();
    const hooks: Partial<LeaseUseCase<string>> = {
      willReleaseOk: (_tx, success, ref) => released.push(success, ref),
    };
    const { kernel, coordinator, lease, grant } = await aHolding(1_500, hooks, on);

    const result = await coordinator.whileHeld(lease, async () => {
      for (let passedMs = 0; passedMs < 2_000; passedMs += 500) {
        const before = await renewedAtMs(kernel);
        await pass(500);
        await waitUntil(async () => (await renewedAtMs(kernel)) > before, { what: 'a heartbeat' });
      }
      return 'done';
    });

    const { leaseId, fencingToken } = grant;
    expect(result).toBe('done');
    expect(released).toEqual(['done', { leaseId, fencingToken }]);
    expect(await rowOf(kernel)).toEqual({ ended: 'released', wasRenewed: true });
  });

  test('that throws: the error is rethrown, and the lease is released as failed', async () => {
    const failed: unknown[] = [];
    const { kernel, coordinator, lease, grant } = await aHolding(60_000, {
      willReleaseFail: (_tx, failure, ref) => failed.push(failure, ref),
    });
    const failure = new TypeError('mine');

    const working = coordinator.whileHeld(lease, () => {
      throw failure;
    });

    const { leaseId, fencingToken } = grant;
    await expect(working).rejects.toBe(failure);
    expect(failed).toEqual([failure, { leaseId, fencingToken }]);
    expect((await rowOf(kernel)).ended).toBe('released');
  });

  test('C45 that has ended is followed by no heartbeat', async () => {
    const { kernel, coordinator, lease } = await aHolding(1_000, {
      willReleaseFail: () => {
        throw new Error('stays held');
      },
    });
    const failure = new Error('no');

    await expect(coordinator.whileHeld(lease, () => Promise.reject(failure))).rejects.toBe(failure);
    await untilLate(kernel, 1_000);

    expect(await rowOf(kernel)).toEqual({ ended: null, wasRenewed: false });
  });

  test('I8 is told to stop when a heartbeat is refused, and is not waited for', async () => {
    const { kernel, coordinator, lease, grant } = await aHolding(3_000);
    let told: AbortSignal | undefined;
    const working = coordinator.whileHeld(lease, (signal) => {
      told = signal;
      return forever();
    });
    working.catch(() => undefined);

    await revoked(kernel, grant.leaseId, 'force');

    await expect(working).rejects.toMatchObject({
      code: 'lease.lost',
      details: { reason: 'revoked' },
    });
    expect(told?.reason).toMatchObject({ code: 'lease.lost' });
  });

  test('C15 is told of a graceful revocation, and may end properly', async () => {
    const { kernel, coordinator, lease, grant } = await aHolding(3_000);

    const result = await coordinator.whileHeld(lease, async (signal) => {
      await revoked(kernel, grant.leaseId, 'graceful');
      await waitUntil(() => signal.aborted);
      return 'saved';
    });

    expect(result).toBe('saved');
    expect((await rowOf(kernel)).ended).toBe('released');
  });

  test('C20 that succeeds too late is lost, and leaves the new holder intact', async () => {
    const { kernel, coordinator, lease, grant } = await aHolding(60_000);

    const working = coordinator.whileHeld(lease, async () => {
      await age(kernel, grant.leaseId, 60_000);
      await granted(kernel, { name: 'a', holder: 'bob' });
      return 'late';
    });

    await expect(working).rejects.toMatchObject({
      code: 'lease.lost',
      details: { reason: 'expired' },
    });
    expect((await rowOf(kernel)).ended).toBeNull();
  });
});
