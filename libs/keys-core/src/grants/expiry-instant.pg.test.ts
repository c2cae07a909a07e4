import { expect, test } from 'vitest';
import { serviceLadder } from '../kernel/ladder.ts';
import type { Grant } from '../kernel/lease.ts';
import { createReaper } from '../keys/index.ts';
import {
  aRequest,
  granted,
  type Kernel,
  releaseOf,
  renewalOf,
  TRUSTING_WATCH,
} from '../testing/kernel-fixture.ts';
import { type PassingTime, passingTime } from '../testing/passing-time.ts';
import { guardNow, lockHeld } from './sql/guard.ts';
import { endStale } from './sql/reap.ts';
import { acquireOrRenew } from './sql/renew.ts';

const TTL_MS = 5_000;

type Ask = (kernel: Kernel, grant: Grant, name: string) => Promise<unknown>;

/** Every statement that decides by the expiry of a grant, and its answers just before it and from then on. */
const STATEMENTS: readonly (readonly [what: string, ask: Ask, before: unknown, at: unknown])[] = [
  [
    'a renewal',
    async (kernel, grant) => (await kernel.leases.renew('lease', renewalOf(grant))).outcome,
    'renewed',
    'refused',
  ],
  [
    'a release',
    (kernel, grant) => kernel.leases.release('lease', releaseOf(grant)),
    'released',
    'expired',
  ],
  [
    'a request of somebody else',
    async (kernel, _grant, name) =>
      (await kernel.leases.grant(aRequest({ name, holder: 'bob' }))).outcome,
    'held',
    'granted',
  ],
  [
    'its holder’s acquireOrRenew',
    async ({ store }, _grant, name) =>
      (await acquireOrRenew(store.general, aRequest({ name }), guardNow(store)))?.outcome,
    'renewed',
    'granted',
  ],
  ['the reaper', async ({ store }) => (await createReaper(store).runOnce()).reapedCount, 0, 1],
  [
    'the end of stale leases',
    async ({ store }) => {
      const page = { after: undefined, limit: 10, belief: guardNow(store).belief };
      const range = { namespace: 'test', includeChildren: false };
      return (await endStale(store.general, range, page)).endedCount;
    },
    0,
    1,
  ],
];

async function inStillTime(): Promise<{ time: PassingTime; kernel: Kernel }> {
  const time = await passingTime();
  const kernel = await time.open({ clockWatch: TRUSTING_WATCH });
  await kernel.store.witness.look();
  return { time, kernel };
}

test.each(STATEMENTS)(
  'C18 %s finds a grant in force until a millisecond before its expiry, and expired at that very instant',
  async (_what, ask, before, at) => {
    const { time, kernel } = await inStillTime();
    const ladder = serviceLadder(TTL_MS);
    const early = await granted(kernel, { name: 'early', ladder });
    await time.pass(TTL_MS - 1);
    const answerBefore = await ask(kernel, early, 'early');
    // Only one grant counts at a time for statements that go through all of them.
    await kernel.store.general.$executeRaw`delete from lease`;
    const late = await granted(kernel, { name: 'late', ladder });
    await time.pass(TTL_MS);

    const answerAt = await ask(kernel, late, 'late');

    expect([answerBefore, answerAt]).toEqual([before, at]);
  },
);

test('C18 fenced work begins under a grant that has a second left, and not at the very instant of its expiry', async () => {
  const { time, kernel } = await inStillTime();
  const grant = await granted(kernel, { ladder: serviceLadder(TTL_MS) });
  const isBegun = (): Promise<boolean> =>
    kernel.store.guests.$transaction(
      async (tx) => (await lockHeld(tx, grant, TTL_MS)) !== undefined,
    );
  // No less: the server ends the transaction, by its own clock, when the grant has nothing left.
  await time.pass(TTL_MS - 1_000);

  const before = await isBegun();
  await time.pass(1_000);
  const at = await isBegun();

  expect([before, at]).toEqual([true, false]);
});
