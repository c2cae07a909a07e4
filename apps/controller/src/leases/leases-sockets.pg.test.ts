import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { openSocket, type RawSocket } from '../testing/raw-socket.ts';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { mutate } from '../testing/wire.ts';
import { acquireLease, lineFor, refOf, wanted } from '../testing/wire-leases.ts';

describe('leases over long connections', () => {
  let on: TestController;
  let secret: string;
  let operator: string;
  shareTestController(async (shared) => {
    on = shared;
    ({ secret } = await on.token('client'));
    operator = (await on.token('operator')).secret;
  });

  const release = (input: object): Promise<unknown> =>
    mutate(on, 'leases.release', { secret, input });
  const force = (leaseId: string): Promise<unknown> =>
    mutate(on, 'leases.revoke', {
      secret: operator,
      input: { leaseId, mode: 'force', reason: 'stuck' },
    });

  async function inLine(raw: RawSocket, change: { key: string; holder: string }): Promise<void> {
    raw.send(1, 'mutation', 'leases.acquire', wanted({ ...change, waitMs: 60_000 }));
    await waitUntil(async () => (await lineFor(on, change.key)).includes(change.holder));
  }

  test.each(['http', 'ws'] as const)(
    'a caller that waits over %s is granted the lease after a release, and told how long it waited',
    async (transport) => {
      const key = randomUUID();
      const lease = await acquireLease(on, secret, { key });
      const { leases } = await on.client('client', transport);
      const waiting = leases.acquire.mutate({
        ...(wanted({ key, holder: 'bob' }) as never as { namespace: string[]; key: string }),
        ttlMs: 30_000,
        holder: 'bob',
        localTimeMs: 1,
        waitMs: 60_000,
      });
      await waitUntil(async () => (await lineFor(on, key)).length === 1);

      await release(refOf(lease));

      const answer = await waiting;
      expect(answer).toMatchObject({ outcome: 'granted', lease: { key } });
      expect(answer.waitedMs).toBeGreaterThan(0);
    },
  );

  test('I9 a caller whose connection is gone leaves the line, and is never granted', async () => {
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key });
    const gone = await openSocket(on, secret);
    await inLine(gone, { key, holder: 'gone' });
    const stays = await openSocket(on, secret);
    await inLine(stays, { key, holder: 'stays' });

    gone.socket.terminate();
    await waitUntil(async () => (await lineFor(on, key)).join() === 'stays');
    await release(refOf(lease));

    const reply = await waitUntil(() => stays.repliesTo(1)[0]);
    expect(reply.result?.data).toMatchObject({ outcome: 'granted' });
  });

  test('I9 a caller that answers no ping is passed over, although its connection looks open', async () => {
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key });
    const frozen = await openSocket(on, secret, { autoPong: false });
    await inLine(frozen, { key, holder: 'frozen' });
    const lives = await openSocket(on, secret);
    await inLine(lives, { key, holder: 'lives' });

    await waitUntil(async () => (await lineFor(on, key)).join() === 'lives');
    expect(frozen.socket.readyState).toBe(frozen.socket.OPEN);
    await release(refOf(lease));

    const reply = await waitUntil(() => lives.repliesTo(1)[0]);
    expect(reply.result?.data).toMatchObject({ outcome: 'granted' });
    expect(frozen.repliesTo(1)).toEqual([]);
  });

  test('C34 I15 a session is told of the revocation of a lease and of an environment', async () => {
    const lease = await acquireLease(on, secret);
    const { lease: environment } = (await mutate(on, 'environments.tryAcquire', {
      secret,
      input: { environment: randomUUID(), action: 'a', holder: 'h', localTimeMs: 1 },
    })) as { lease: { leaseId: string } };
    const raw = await openSocket(on, secret);
    raw.send(7, 'subscription', 'leases.session', { clientId: 'service-1' });
    await waitUntil(() => raw.repliesTo(7)[0]);
    const heard = (): unknown[] => raw.repliesTo(7).flatMap(({ result }) => result?.data ?? []);

    await force(lease.leaseId);
    await waitUntil(() => heard().length === 1);
    await mutate(on, 'environments.revoke', {
      secret: operator,
      input: { leaseId: environment.leaseId, mode: 'graceful', reason: 'freeze' },
    });
    await waitUntil(() => heard().length === 2);

    expect(heard()).toEqual([
      {
        leaseId: lease.leaseId,
        kind: 'revoked',
        reason: 'stuck',
        stopsByMs: expect.closeTo(30_000, -4) as number,
      },
      expect.objectContaining({
        leaseId: environment.leaseId,
        kind: 'revoking',
        reason: 'freeze',
      }),
    ]);
  });
});
