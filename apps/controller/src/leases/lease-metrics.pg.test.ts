import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { metric } from '../testing/metric.ts';
import { ENVIRONMENT_LEASE_MS, startTestController } from '../testing/test-controller.ts';
import { mutate } from '../testing/wire.ts';
import {
  acquireLease,
  ageLease,
  lineFor,
  refOf,
  wanted,
  type WireLease,
} from '../testing/wire-leases.ts';

describe('metrics of leases', () => {
  test('C36 grants and refusals are counted by the state of the lease before: free, active, expired', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const lease = await acquireLease(on, secret, { key: 'a' });
    await mutate(on, 'leases.acquire', { secret, input: wanted({ key: 'a' }) });
    await ageLease(on, lease.leaseId, 30_000);
    const next = await acquireLease(on, secret, { key: 'a' });
    await mutate(on, 'leases.release', { secret, input: refOf(next) });

    const of = (outcome: string, status: string): Promise<number> =>
      metric(on, `leasehold_grants_total{face="lease",outcome="${outcome}",status="${status}"}`);
    expect(await of('granted', 'free')).toBe(1);
    expect(await of('denied', 'active')).toBe(1);
    expect(await of('granted', 'expired')).toBe(1);
    expect(await metric(on, 'leasehold_releases_total{face="lease",outcome="released"}')).toBe(1);
    expect(await metric(on, 'leasehold_held_ms_count{face="lease"}')).toBe(1);
  });

  test('C36 those of environments are also counted by action, and the time that they are held is measured', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const tryAcquire = (action: string): Promise<unknown> =>
      mutate(on, 'environments.tryAcquire', {
        secret,
        input: { environment: 'prod', action, holder: 'h', localTimeMs: 1 },
      });
    const { lease } = (await tryAcquire('verify')) as { lease: WireLease };
    await tryAcquire('deploy');
    await ageLease(on, lease.leaseId, 20_000);
    await mutate(on, 'environments.release', { secret, input: refOf(lease) });
    const last = (await tryAcquire('deploy')) as { lease: WireLease };
    await ageLease(on, last.lease.leaseId, ENVIRONMENT_LEASE_MS);
    await tryAcquire('verify');

    const of = (outcome: string, status: string, action: string): Promise<number> =>
      metric(
        on,
        `leasehold_environment_grants_total{outcome="${outcome}",status="${status}",action="${action}"}`,
      );
    expect(await of('granted', 'free', 'verify')).toBe(1);
    expect(await of('denied', 'active', 'deploy')).toBe(1);
    expect(await of('granted', 'free', 'deploy')).toBe(1);
    expect(await of('granted', 'expired', 'verify')).toBe(1);
    const held = '{action="verify",outcome="granted"}';
    expect(await metric(on, `leasehold_environment_lease_ms_count${held}`)).toBe(1);
    expect(await metric(on, `leasehold_environment_lease_ms_sum${held}`)).toBeGreaterThan(20_000);
    const denied = '{action="deploy",outcome="denied"}';
    expect(await metric(on, `leasehold_environment_lease_ms_count${denied}`)).toBe(1);
  });

  test('waits are measured by how they ended, and present waiters are counted', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const lease = await acquireLease(on, secret, { key: 'a' });
    const asking = (waitMs: number): Promise<unknown> =>
      mutate(on, 'leases.acquire', { secret, input: wanted({ key: 'a', waitMs }) });
    await asking(1);
    const waiting = asking(60_000);
    await waitUntil(async () => (await lineFor(on, 'a')).length === 1);
    expect(await metric(on, 'leasehold_waiters{face="lease"}')).toBe(1);
    await mutate(on, 'leases.release', { secret, input: refOf(lease) });
    await waiting;

    const of = (outcome: string): Promise<number> =>
      metric(on, `leasehold_wait_ms_count{face="lease",outcome="${outcome}"}`);
    expect(await of('gave_up')).toBe(1);
    expect(await of('granted')).toBe(1);
    expect(await metric(on, 'leasehold_waiters{face="lease"}')).toBe(0);
  });
});
