import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { quickestMs } from '@leasehold/testing';
import { openSession } from '../testing/coordinator-fixture.ts';
import { aRequest, granted, openKernel, renewalOf } from '../testing/kernel-fixture.ts';

describe('locks', () => {
  test('C51 beside an open fenced transaction a refused acquire, a renewal and other grants answer in 50 ms', async () => {
    const kernel = await openKernel();
    const fenced = await granted(kernel, { name: 'r' });
    const healthy = await granted(kernel, { name: 'q' });
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for key share', [fenced.leaseId]);
    const outcomes = new Set<string>();

    // The transaction stays open. What waited for its lock would give up after the store's own bound.
    const tookMs = await quickestMs(async () => {
      const answers = await Promise.all([
        kernel.leases.grant(aRequest({ name: 'r' })),
        kernel.leases.renew('lease', renewalOf(healthy)),
        kernel.leases.renew('lease', renewalOf(fenced)),
        kernel.leases.grant(aRequest({ name: `s${randomUUID()}` })),
      ]);
      outcomes.add(answers.map(({ outcome }) => outcome).join());
    });
    await session.query('rollback');

    expect([...outcomes]).toEqual(['held,renewed,renewed,granted']);
    expect(tookMs).toBeLessThan(50);
  });
});
