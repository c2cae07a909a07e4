import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { GrantRequest } from '../kernel/lease.ts';
import { createJoinForEnvironment } from '../leases/environment-waiting.ts';
import { addCrashPoints, type Crash, type CrashPoints } from '../testing/crash-points.ts';
import {
  age,
  aGuard,
  aRequest,
  granted,
  type Kernel,
  openFreshKernel,
} from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { downgrade } from './sql/renew.ts';
import { grantAll, joinLines, leaveLines } from './sql/grant-all.ts';
import { joinLine } from './sql/line.ts';
import { openPools } from './sql/open-pools.ts';
import { grantSlots, type SlotRequest } from './sql/pools.ts';
import { firstLeaseId, leaseIdsFrom } from './sql/requests.ts';

/** More than any of these transitions writes. */
const POINTS_MAX = 60;

/** All that the database keeps of leases. */
async function stored({ store }: Kernel): Promise<unknown> {
  return store.general.$queryRaw`
    select
      (select jsonb_agg(to_jsonb(l) order by l.namespace, l.name) from lease l) as leases,
      (select jsonb_agg(to_jsonb(v) order by v.id) from lease_event v) as events,
      (select jsonb_agg(to_jsonb(q) order by q.id) from lease_request q) as requests,
      (select jsonb_agg(to_jsonb(w) order by w.id) from lease_waiter w) as waiters,
      (select jsonb_agg(to_jsonb(r) order by r.lease_id) from lease_reap r) as callbacks`;
}

/**
 * Lets a transition die at each of its writes, and as it is committed, by an error and by the end of its connection,
 * until it is carried out. @returns how many times it has died.
 */
async function dieEverywhere(
  kernel: Kernel,
  crashes: CrashPoints,
  carryOut: () => Promise<unknown>,
): Promise<number> {
  let count = 0;
  for (let point = 1; point <= POINTS_MAX; point += 1) {
    for (const how of ['error', 'connection'] satisfies Crash[]) {
      const before = await stored(kernel);
      const answer = await crashes.during(point, how, async () => ({ is: await carryOut() }));
      if (answer !== undefined) return count;
      count += 1;
      expect(await stored(kernel), `${how} at its write ${String(point)}`).toEqual(before);
    }
  }
  throw new Error('it writes without an end');
}

/** Three leases, with the ids that they have together. */
function together(change: Partial<GrantRequest> = {}): GrantRequest[] {
  const ids = leaseIdsFrom(firstLeaseId(randomUUID()), 3);
  return ['a', 'b', 'c'].map((name, place) =>
    aRequest({ name, leaseId: ids[place] ?? '', holder: 'bob', ...change }),
  );
}

const ticketOf = (request: GrantRequest) => ({
  ...request,
  ticketId: request.leaseId,
  waiter: request.holder,
  idempotencyKey: request.idempotencyKey ?? request.leaseId,
});

test('several leases are all granted or none, whichever write or commit of their statement fails', async () => {
  const kernel = await openFreshKernel();
  const crashes = await addCrashPoints(kernel);
  const old = await granted(kernel, { name: 'b' });
  await age(kernel, old.leaseId, 61_000);
  const [first, ...others] = together();
  if (first === undefined) throw new Error('there are three');
  const guard = await aGuard(kernel.store);
  const { transitions } = kernel.store;
  const lines = { ...ticketOf(first), others: others.map(ticketOf) };

  const joins = await dieEverywhere(kernel, crashes, () => joinLines(transitions, lines));
  const queued = [first, ...others].map((one) => ({ ...one, isQueued: true }));
  const inTurn = await dieEverywhere(kernel, crashes, () =>
    grantAll(transitions, queued, { guard, onLocked: 'skip' }),
  );
  const held = await kernel.store.general.$queryRaw`
    select name from lease where holder = 'bob' order by name`;

  expect([joins, inTurn].map((count) => count > 8)).toEqual([true, true]);
  expect(held).toEqual([{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
});

test('a request for several leases gives up all of its places or none', async () => {
  const kernel = await openFreshKernel();
  const crashes = await addCrashPoints(kernel);
  const [first, ...others] = together().map(ticketOf);
  if (first === undefined) throw new Error('there are three');
  const { transitions } = kernel.store;
  await joinLines(transitions, { ...first, others });

  const count = await dieEverywhere(kernel, crashes, () =>
    leaveLines(transitions, { ...first, others, answer: { outcome: 'held' } }),
  );

  expect(count).toBeGreaterThan(4);
  expect(await kernel.store.general.$queryRaw`select 1 from lease_waiter`).toEqual([]);
});

test('a permit is granted with its token, its event and the end of its place, or not at all', async () => {
  const kernel = await openFreshKernel();
  const crashes = await addCrashPoints(kernel);
  await declarePermits(kernel, { perKey: 2, total: 2 });
  const guard = await aGuard(kernel.store);
  const { transitions } = kernel.store;
  const request: SlotRequest = { ...aRequest({ holder: 'bob' }), mode: 'permit' };
  const pools = ['thing', '\u001F'].map((name) => ({
    ...{ namespace: 'test', name, kind: 'permit' as const, hasTotal: true },
  }));

  const opens = await dieEverywhere(kernel, crashes, () =>
    openPools(transitions, pools, { guard, onLocked: 'skip' }),
  );
  const old = await granted(kernel, { mode: 'permit' });
  await age(kernel, old.leaseId, 61_000);
  await joinLine(transitions, [ticketOf(request)]);
  const grants = await dieEverywhere(kernel, crashes, () =>
    grantSlots(transitions, [{ ...request, isQueued: true }], { guard, onLocked: 'skip' }),
  );

  expect(opens).toBeGreaterThan(4);
  expect(grants).toBeGreaterThan(8);
  expect(
    await kernel.store.general
      .$queryRaw`select holder from lease where mode = 'permit' and holder <> ''`,
  ).toEqual([{ holder: 'bob' }]);
});

test('a lease that is shared without letting it go is at no moment free, nor held twice', async () => {
  const kernel = await openFreshKernel();
  const crashes = await addCrashPoints(kernel);
  const grant = await granted(kernel);
  const request = { ...grant, principal: 'token-a', actor: 'alice' };

  const count = await dieEverywhere(kernel, crashes, () =>
    downgrade(kernel.store.transitions, request, 'skip'),
  );

  expect(count).toBeGreaterThan(4);
});

test('a newer request ends all that it supersedes and takes its place, or neither', async () => {
  const kernel = await openFreshKernel();
  const crashes = await addCrashPoints(kernel);
  const { store } = kernel;
  const join = createJoinForEnvironment(store);
  const ask = (holder: string) => {
    const request = aRequest({ face: 'environment', name: 'prod', tag: 'deploy', holder });
    return ticketOf(request);
  };
  const giveUpAtMs = store.clock.nowMs() + 600_000;
  const standing = { priority: 0, isNewestFirst: false };
  await granted(kernel, { face: 'environment', name: 'prod', tag: 'deploy' });
  for (const holder of ['v2', 'v3']) await join(ask(holder), standing, giveUpAtMs);
  const newest = ask('v4');

  const count = await dieEverywhere(kernel, crashes, () =>
    join(newest, { ...standing, supersede: 'running' }, giveUpAtMs),
  );

  expect(count).toBeGreaterThan(12);
  const left = await store.general.$queryRaw`
    select w.waiter, l.renewable from lease_waiter w join lease l on l.name = w.name`;
  expect(left).toEqual([{ waiter: 'v4', renewable: false }]);
});
