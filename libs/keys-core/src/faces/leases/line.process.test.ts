import { expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import {
  acquire,
  acquired,
  openLeases,
  released,
  type Leases,
} from '../../testing/lease-fixture.ts';
import type { AcquireAnswer, CallerLife } from './lease-types.ts';

/** Alone on the machine: a controller that is starved for half a second loses its waiters' places. */
const WAITERS = 1_000;
/** Every tenth dies in line. */
const DIES_EVERY = 10;
/** What a dead waiter may cost those behind it: its ticket’s lease of half a second, on a busy machine. */
const DELAY_MS_MAX = 2_000;

interface Waiting {
  readonly at: Leases;
  readonly life: CallerLife & { isDead: boolean };
  readonly answer: Promise<AcquireAnswer>;
}

test('I9 a thousand who wait at three controllers are granted in order, though a hundred of them die in line', async () => {
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
    return { at, life, answer };
  });
  const numberOf = await waitUntil(async () => {
    const tickets = await ticketsOf(first);
    return tickets.size === WAITERS ? tickets : undefined;
  });
  for (const { life } of waiting.filter((_, place) => place % DIES_EVERY === 3)) life.isDead = true;
  const living = waiting.filter(({ life }) => !life.isDead);
  const done = Promise.all(
    living.map(async ({ at, answer }) => {
      const granted = await answer;
      if (granted.outcome !== 'granted') throw new Error(granted.outcome);
      grantedAtMs.push(first.store.clock.nowMs());
      await released(at, granted.lease);
    }),
  );
  await released(first, held);
  await done;

  const order = (await grantsOf(first)).map((leaseId) => numberOf.get(leaseId) ?? -1);
  const gapsMs = grantedAtMs.slice(1).map((atMs, place) => atMs - (grantedAtMs[place] ?? 0));
  expect(order).toHaveLength(living.length);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(Math.max(...gapsMs)).toBeLessThan(DELAY_MS_MAX);
}, 120_000);

async function ticketsOf({ store }: Leases): Promise<Map<string, number>> {
  const rows = await store.prisma.$queryRaw<{ leaseId: string; number: number }[]>`
    select ticket_id as "leaseId", id::float8 as number from lease_waiter`;
  return new Map(rows.map((row) => [row.leaseId, row.number]));
}

/** The lease ids of the grants after the first, in their order. */
async function grantsOf({ store }: Leases): Promise<string[]> {
  const rows = await store.prisma.$queryRaw<{ leaseId: string }[]>`
    select lease_id as "leaseId" from lease_event
    where kind in ('granted', 'taken_over') order by id offset 1`;
  return rows.map((row) => row.leaseId);
}
