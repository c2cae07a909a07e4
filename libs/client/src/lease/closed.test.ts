import { describe, expect, test } from 'vitest';
import { createTestLeasehold, settled } from '../double/index.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { failureOf } from '../testing/outcomes.ts';

const CLOSED = { code: 'client.closed', name: 'LeaseholdCallError' };

describe('a client that is closed', () => {
  test('gives back a grant that arrives meanwhile, and its caller learns why', async () => {
    const { wire, background, define, clock } = setUpLeases();
    const acquire = wire.acquire.bind(wire);
    let arrive = (): void => undefined;
    wire.acquire = async (...args) => {
      const answer = await acquire(...args);
      await new Promise<void>((resolve) => (arrive = resolve));
      return answer;
    };
    const waiting = failureOf(define().acquire('k', { waitMs: 60_000 }));
    await settled();
    expect(wire.holderOf('k')).toBe('me');

    background.close();
    arrive();

    expect(await waiting).toMatchObject(CLOSED);
    await background.end(settled());
    expect(wire.holderOf('k')).toBeUndefined();
    expect(clock.waitingCount).toBe(0);
  });

  test('sends nothing any more, also no release', async () => {
    const { wire, background, define } = setUpLeases();
    const lease = await define().acquire('k');
    background.close();
    await background.end(settled());

    expect(await lease.release()).toBe('unknown');
    expect(await failureOf(define().acquire('other'))).toMatchObject(CLOSED);
    expect(wire.releases).toEqual([]);
    expect(wire.acquires).toHaveLength(1);
  });

  test('ends with a call that nobody answers', async () => {
    const leasehold = createTestLeasehold();
    const client = leasehold.client();
    const jobs = client.defineLease(['jobs']);
    leasehold.cutOff(client);
    const waiting = failureOf(jobs.acquire('k'));

    await client.close();

    expect(await waiting).toMatchObject(CLOSED);
    expect(await failureOf(jobs.acquire('k'))).toMatchObject(CLOSED);
  });

  test('tells the holders of leases that they are lost, and that the client was closed', async () => {
    const leasehold = createTestLeasehold();
    const client = leasehold.client();
    const lease = await client.defineLease(['jobs']).acquire('k');

    await client.close();

    expect(lease.signal.reason).toMatchObject({ code: 'lease.lost', cause: CLOSED });
    expect(leasehold.holdingOf(lease)).toBeDefined();
  });
});
