import { expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import {
  acquire,
  acquired,
  type Leases,
  lineOf,
  openLeases,
  released,
} from '../testing/lease-fixture.ts';
import type { AcquireAnswer, CallerLife } from './lease-types.ts';

/** Alone on the machine: a controller that is starved for half a second loses its waiters' places. */
const WAITERS = 1_000;
/** Every tenth dies in line; of those, every tenth only when it is first. */
const DIES_EVERY = 10;
const DIES_FIRST_EVERY = 100;
/** How long a dead waiter may delay the others: its ticket counts for half a second; the machine is busy. */
const DELAY_MS_MAX = 1_500;

interface Waiting {
  readonly at: Leases;
  readonly life: CallerLife & { isDead: boolean };
  readonly answer: Promise<AcquireAnswer>;
}

test('I9 a thousand waiters at three controllers are granted in order, though a hundred of them die in line', async () => {
  const first = await openLeases();
  const controllers = [
    first,
    await openLeases({ databaseUrl: first.databaseUrl }),
    await openLeases({ databaseUrl: first.databaseUrl }),
  ];
  const held = await acquired(first, { ttlMs: 600_000 });
  const grantedAtMs: number[] = [];
  const waiting = Array.from({ length: WAITERS }, (_, place): Waiting => {
    const at = controllers[place % controllers.length] ?? first;
    const life = {
      signal: new AbortController().signal,
      isDead: false,
      isAlive: (): boolean => !life.isDead,
    };
    const answer = acquire(
      at,
      { waitMs: 120_000, ttlMs: 600_000, holder: `waiter-${String(place)}` },
      { life },
    );
    // A waiter that dies at its turn gives the grant back, and its answer is an error.
    answer.catch(() => undefined);
    return { at, life, answer };
  });
  const line = await waitUntil(async () => {
    const tickets = await lineOf(first);
    return tickets.length === WAITERS ? tickets.map(waiterOf) : undefined;
  });
  const inLine = line.map((place) => waiting[place]);
  inLine.forEach((one, place) => {
    if (place % DIES_EVERY === 3 && place % DIES_FIRST_EVERY !== 53) kill(one);
  });
  const doomed = inLine.filter((_, place) => place % DIES_FIRST_EVERY === 53);
  const living = inLine.filter((one) => one?.life.isDead === false && !doomed.includes(one));
  const done = Promise.all(
    living.map(async (one) => {
      if (one === undefined) return;
      const granted = await one.answer;
      if (granted.outcome !== 'granted') throw new Error(granted.outcome);
      grantedAtMs.push(first.store.clock.nowMs());
      // The first in line, which is doomed, dies before the release.
      const next = inLine.slice(inLine.indexOf(one) + 1).find((other) => !other?.life.isDead);
      if (doomed.includes(next)) kill(next);
      await released(one.at, granted.lease);
    }),
  );
  await released(first, held);
  await done;

  const order = (await holdersOf(first)).map((holder) => line.indexOf(waiterOf(holder)));
  const gapsMs = grantedAtMs.slice(1).map((atMs, place) => atMs - (grantedAtMs[place] ?? 0));
  expect(waiting.filter(({ life }) => life.isDead)).toHaveLength(WAITERS / DIES_EVERY);
  expect(order.filter((place) => living.includes(inLine[place]))).toHaveLength(living.length);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(Math.max(...gapsMs)).toBeLessThan(DELAY_MS_MAX);
}, 120_000);

function kill(one: Waiting | undefined): void {
  if (one !== undefined) one.life.isDead = true;
}

/** The number in the name of a holder or waiter. */
function waiterOf(name: string): number {
  return Number(name.replace('waiter-', ''));
}

/** The holders of the grants after the first, in their order. */
async function holdersOf({ store }: Leases): Promise<string[]> {
  const rows = await store.general.$queryRaw<{ holder: string }[]>`
    select detail ->> 'holder' as holder from lease_event
    where kind in ('granted', 'taken_over') order by id offset 1`;
  return rows.map((row) => row.holder);
}
