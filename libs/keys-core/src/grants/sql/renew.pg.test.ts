import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { serviceLadder } from '../../kernel/ladder.ts';
import { openSession } from '../../testing/coordinator-fixture.ts';
import { age, granted, type Kernel, openKernel, renewalOf } from '../../testing/kernel-fixture.ts';
import { renewInTime } from './renew.ts';
import { setRenewable } from './revoke.ts';

/** From now on, a change of a lease that was judged in time is held up until the lease has expired. */
async function holdUpChanges(kernel: Kernel): Promise<void> {
  const session = await openSession(kernel);
  await session.query(
    `create function hold_up() returns trigger language plpgsql as
     $$ begin perform pg_sleep_until(old.expires_at); return new; end $$`,
  );
  await session.query(
    'create trigger hold_up before update on lease for each row execute function hold_up()',
  );
}

function renewIn({ store }: Kernel, requests: Parameters<typeof renewInTime>[2]) {
  return renewInTime(store.renewals, 'lease', requests);
}

/** Sends it until it has an answer: it has none if it was held up itself, on a slow machine. */
async function answered<T>(send: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await send();
    if (answer !== undefined) return answer;
  }
}

describe('renewInTime', () => {
  test('renews what lasts for a good while yet, for its holder, by its token', async () => {
    const kernel = await openKernel();
    const [plain, lapsing, over, blocked] = await Promise.all(
      ['plain', 'lapsing', 'over', 'blocked'].map((name) => granted(kernel, { name })),
    );
    if (!plain || !lapsing || !over || !blocked) throw new Error('each was granted');
    await age(kernel, plain.leaseId, 30_000);
    await age(kernel, lapsing.leaseId, 59_850);
    await age(kernel, over.leaseId, 60_000);
    const by = { actor: 'op', reason: 'because', namespaces: null, leaseId: blocked.leaseId };
    await setRenewable(kernel.store.general, 'lease', false, [by]);

    const requests = [
      renewalOf(lapsing),
      renewalOf(plain),
      renewalOf(over),
      renewalOf(blocked),
      renewalOf({ leaseId: randomUUID(), fencingToken: plain.fencingToken }),
    ];
    const renewed = await answered(() => renewIn(kernel, requests));
    const ofOthers = await Promise.all([
      answered(() => renewIn(kernel, [renewalOf({ ...plain, fencingToken: '1' })])),
      answered(() => renewIn(kernel, [renewalOf(plain, { principal: 'token-b' })])),
      answered(() => renewInTime(kernel.store.renewals, 'key', [renewalOf(plain)])),
    ]);

    expect([...renewed.outcomes.keys()]).toEqual([plain.leaseId]);
    expect(renewed.outcomes.get(plain.leaseId)).toMatchObject({ outcome: 'renewed' });
    expect(ofOthers.map((other) => other.outcomes.size)).toEqual([0, 0, 0]);
  });

  test('C52 one that was held up until after the expiry renews nothing, and the expiry is final', async () => {
    const kernel = await openKernel();
    await holdUpChanges(kernel);
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });

    expect(await renewIn(kernel, [renewalOf(grant)])).toBeUndefined();
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      outcome: 'refused',
      reason: 'expired',
    });
  });

  test('a locked row fails it at once, and the full statement renews the others', async () => {
    const kernel = await openKernel();
    const locked = await granted(kernel, { name: 'locked' });
    const free = await granted(kernel, { name: 'free' });
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for share', [locked.leaseId]);
    const both = [renewalOf(locked), renewalOf(free)];

    expect(await renewIn(kernel, both)).toBeUndefined();
    const [answer, other] = await kernel.leases.renewAll('lease', both);
    await session.query('rollback');

    expect(answer).toBeUndefined();
    expect(other).toMatchObject({ outcome: 'renewed' });
    expect((await answered(() => renewIn(kernel, both))).outcomes.size).toBe(2);
  });

  test('two that ask for the same grants in opposite order never fail', async () => {
    const kernel = await openKernel();
    const grants = await Promise.all(
      Array.from({ length: 100 }, (_, place) => granted(kernel, { name: String(place) })),
    );
    const requests = grants.map((grant) => renewalOf(grant));
    const backwards = requests.toReversed();

    for (let round = 0; round < 20; round += 1) {
      const answers = await Promise.all([renewIn(kernel, requests), renewIn(kernel, backwards)]);
      expect(answers.map((answer) => answer?.outcomes.size ?? 100)).toEqual([100, 100]);
    }
  });
});
