import { randomInt } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { startEtcd, type TestEtcd, waitUntil } from '@leasehold/testing';
import { LeaseError } from '../../kernel/errors.ts';
import type { ReservationKey } from '../../kernel/reservation.ts';
import { MACHINE_CLOCK } from '../../testing/kernel-fixture.ts';
import { aKey, anId } from '../reservation-store.contract-for-test.ts';
import type { ReservationStore } from '../reservation-store.ts';
import { createEtcdReservationStore } from './etcd-store.ts';

const MEMBERS_COUNT = 3;
const KEYS_COUNT = 500;
/** So many callers of each datacenter at once. */
const CALLERS_COUNT = 4;
const KILLS_MIN = 4;

interface Acknowledged {
  readonly key: ReservationKey;
  readonly outcome: 'reserved' | 'existing';
  readonly reservationId: string;
}

/** The callers of a datacenter reserve each key, and retry with another id when there is no answer. */
async function reserveAll(
  store: ReservationStore,
  datacenter: string,
  keys: ReservationKey[],
): Promise<Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  const caller = async (): Promise<void> => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      const wanted = key;
      const put = await waitUntil(
        () => store.put(wanted, anId(datacenter)).catch(onlyUnreachable),
        {
          timeoutMs: 30_000,
        },
      );
      acknowledged.push({ key, ...put });
    }
  };
  await Promise.all(Array.from({ length: CALLERS_COUNT }, caller));
  return acknowledged;
}

function onlyUnreachable(error: unknown): undefined {
  if (error instanceof LeaseError && error.code === 'reservation.store_unreachable') return;
  throw error;
}

/** Kills one member after the other, at random, each when the last is back. @returns how many times. */
async function killInTurn(etcd: TestEtcd, isOver: () => boolean): Promise<number> {
  let kills = 0;
  while (!isOver() || kills < KILLS_MIN) {
    const index = randomInt(MEMBERS_COUNT);
    await etcd.kill(index);
    await etcd.restart(index);
    await etcd.waitUntilHealthy();
    kills += 1;
  }
  return kills;
}

test('C38 C39 no reservation is lost or duplicated while members of etcd are killed', async () => {
  const etcd = await startEtcd({ membersCount: MEMBERS_COUNT });
  onTestFinished(() => etcd.stop());
  const keys = Array.from({ length: KEYS_COUNT }, aKey);
  const stores = etcd.endpoints.map((_, index) => {
    // Each datacenter has a member of its own, and asks it first.
    const endpoints = [...etcd.endpoints.slice(index), ...etcd.endpoints.slice(0, index)];
    const store = createEtcdReservationStore({ endpoints, clock: MACHINE_CLOCK });
    onTestFinished(() => store.close());
    return store;
  });

  let isOver = false;
  const [acknowledged, kills] = await Promise.all([
    Promise.all(
      // All in the same order, so that they collide.
      stores.map((store, index) => reserveAll(store, `dc${String(index + 1)}`, [...keys])),
    ).finally(() => (isOver = true)),
    killInTurn(etcd, () => isOver),
  ]);

  expect(kills).toBeGreaterThanOrEqual(KILLS_MIN);
  const [reader] = stores;
  const truth = new Map(
    await Promise.all(keys.map(async (key) => [key, await reader?.read(key)] as const)),
  );
  const all = acknowledged.flat();
  expect(all).toHaveLength(KEYS_COUNT * stores.length);
  expect(all.filter(({ key, reservationId }) => truth.get(key) !== reservationId)).toEqual([]);
  // Reported as reserved once at most; never, when the answer to its reserver was lost.
  const reserved = all.filter(({ outcome }) => outcome === 'reserved').map(({ key }) => key);
  expect(new Set(reserved).size).toBe(reserved.length);
});
