import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Clock } from '../kernel/clock.ts';
import type { GrantRequest } from '../kernel/lease.ts';
import { aGate } from '../testing/coordinator-fixture.ts';
import { age, aRequest, granted, openKernel, releaseOf } from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createGroupGranter } from './granting-all.ts';
import { createLeaseStore } from './lease-store.ts';

const permit = (change: Partial<GrantRequest> = {}) => aRequest({ mode: 'permit', ...change });

describe('a pool that a transaction keeps locked', () => {
  test('delays no answer of a request beside it in one statement while it is tried again', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    for (const name of ['a', 'b']) await granted(kernel, { mode: 'permit', name });
    let isAnswered = false;

    const locked = await kernel.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select name from lease where name = 'a' for update`;
      const first = kernel.leases.grant(permit({ name: 'a' })).finally(() => {
        isAnswered = true;
      });
      const second = kernel.leases.grant(permit({ name: 'b' }));
      const both = Promise.allSettled([first, second]);
      expect((await second).outcome).toBe('granted');
      await setImmediate();
      expect(isAnswered).toBe(false);
      return { both };
    });

    await locked.both;
  });

  test('delays no answer of another one that is tried again beside it', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    for (const name of ['a', 'b']) await granted(kernel, { mode: 'permit', name });
    const paused = aGate();
    const { clock } = kernel.store;
    const at: Clock['at'] = (...args) => {
      paused.open();
      return clock.at(...args);
    };
    const leases = createLeaseStore({ ...kernel.store, clock: { ...clock, at } });
    const answered: string[] = [];
    const ask = async (name: string): Promise<void> => {
      await leases.grant(permit({ name })).catch(() => undefined);
      answered.push(name);
    };

    const first = await kernel.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select name from lease where name = 'a' for update`;
      const asked = await kernel.store.general.$transaction(async (other) => {
        await other.$queryRaw`select name from lease where name = 'b' for update`;
        const both = [ask('a'), ask('b')] as const;
        await paused.opened;
        return both;
      });
      await asked[1];
      await setImmediate();
      expect(answered).toEqual(['b']);
      return { answer: asked[0] };
    });

    await first.answer;
  });

  test('is held by nobody whose permit has run out and is free', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const old = [
      await granted(kernel, { mode: 'permit' }),
      await granted(kernel, { mode: 'permit' }),
    ];
    for (const { leaseId } of old) await age(kernel, leaseId, 61_000);

    const answers = await kernel.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select name from lease where name = 'thing' for update`;
      const alone = kernel.leases.grant(permit());
      const together = createGroupGranter(kernel.store).grantAll([
        permit(),
        aRequest({ name: 'other' }),
      ]);
      return Promise.allSettled([alone, together]);
    });

    const contended = { reason: { code: 'grant.contended' } };
    expect(answers).toMatchObject([contended, contended]);
  });

  test.each([
    ['whose own row is locked', true],
    ['that is not open yet', false],
  ])('%s keeps no other pool back', async (_which, isOpen) => {
    const kernel = await openKernel();
    const first = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(first));
    await declarePermits(kernel, { perKey: 2 });
    if (isOpen) await granted(kernel, { mode: 'permit', name: 'a' });

    const [locked, other] = await kernel.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select name from lease where name = 'a' for update`;
      const asked = [permit({ name: 'a' }), permit({ name: 'b' })];
      return Promise.all(
        asked.map((request) => kernel.leases.grant(request).catch((error: unknown) => error)),
      );
    });

    expect(other).toMatchObject({ outcome: 'granted' });
    expect(locked).toMatchObject({ code: 'grant.contended' });
    expect((await kernel.leases.grant(permit({ name: 'a' }))).outcome).toBe('granted');
  });
});
