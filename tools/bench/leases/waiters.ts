import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import type pg from 'pg';
import { startControllers } from '../controllers.ts';
import type { Figure } from '../rig/figures.ts';
import { atLeast, atMost, count, milliseconds } from '../rig/quantities.ts';
import { connectLeasehold, type LeaseholdService } from '../services/leasehold-service.ts';
import type { BenchDatabase, Rig } from '../rig/rig.ts';
import { quantile } from '../rig/rounds.ts';

const CONTROLLER_COUNT = 3;
const QUEUED_MS_MAX = 30_000;
const LOOK_MS = 5;
/** How long waiters without hints are watched: each handover may take a second. */
const DEAF_MS = 20_000;
/** A listener that was cut off is back after a second, and must be cut off again. */
const CUT_EVERY_MS = 50;
/** Between two tries of a caller that does not want to wait in line. */
const BARGE_EVERY_MS = 5;

/** Many waiters on one lease across three controllers: their order, and how soon each wakes. */
export async function measureWaiters(rig: Rig): Promise<Figure[]> {
  const waiterCount = rig.isQuick ? 60 : 1_000;
  const database = await rig.database('bench_waiters');
  const { urls, token } = await startControllers(rig, database, CONTROLLER_COUNT);
  const services = urls.map((url) => connectLeasehold(rig, url, token));
  const hearing = await runLine({ database, services }, { key: 'hinted', waiterCount });
  const stopCutting = cutNotifications(database.pool);
  const watchedMs = rig.isQuick ? 3_000 : DEAF_MS;
  const deaf = await runLine({ database, services }, { key: 'deaf', waiterCount, watchedMs });
  await stopCutting();
  return [
    {
      what: `of ${String(waiterCount)} waiters on three controllers, granted in the order of their tickets`,
      result: count(hearing.inOrderCount),
      required: atLeast(waiterCount),
    },
    {
      what: `barged past them, in ${String(hearing.bargeTryCount)} tries`,
      result: count(hearing.bargedCount),
      required: atMost(0),
    },
    {
      what: `handover with ${String(waiterCount)} waiters on three controllers, p50`,
      result: milliseconds(quantile(hearing.wokenMs, 0.5)),
      required: atMost(5),
      goal: atMost(3),
    },
    {
      what: `handover with ${String(waiterCount)} waiters on three controllers, p99`,
      result: milliseconds(quantile(hearing.wokenMs, 0.99)),
      required: atMost(25),
    },
    {
      what: `the same with notifications killed, p99 of ${String(deaf.wokenMs.length)}`,
      result: milliseconds(quantile(deaf.wokenMs, 0.99)),
      required: atMost(1_000),
    },
  ];
}

interface Line {
  /** From each call that releases to the moment when the next one knows that it holds the lease. */
  readonly wokenMs: readonly number[];
  /** How many were granted at their place in line. */
  readonly inOrderCount: number;
  readonly bargeTryCount: number;
  readonly bargedCount: number;
}

interface Fleet {
  readonly database: BenchDatabase;
  readonly services: readonly LeaseholdService[];
}

/**
 * Lets waiters queue behind a holder, and each release the lease as soon as it holds it. A waiter that
 * still waits after `watchedMs` gives up.
 */
async function runLine(
  { database, services }: Fleet,
  { key, waiterCount, watchedMs }: { key: string; waiterCount: number; watchedMs?: number },
): Promise<Line> {
  const serviceAt = (place: number): LeaseholdService => {
    const service = services[place % services.length];
    invariant(service !== undefined, 'there is a controller for every waiter');
    return service;
  };
  const wokenMs: number[] = [];
  const over = new AbortController();
  const holder = await serviceAt(0).take(key);
  let releasedAtMs = 0;
  const waitInLine = async (place: number): Promise<void> => {
    const held = await serviceAt(place).wait(key, over.signal);
    if (!over.signal.aborted) wokenMs.push(performance.now() - releasedAtMs);
    releasedAtMs = performance.now();
    await held.release();
  };
  // Waiters join at the controllers in turn, so that nearly every handover is from one to another.
  const waits: Promise<void>[] = [];
  let tickets: string[] = [];
  while (waits.length < waiterCount) {
    const place = waits.length;
    const nextCount = Math.min(services.length, waiterCount - place);
    for (let next = 0; next < nextCount; next += 1) waits.push(waitInLine(place + next));
    tickets = await ticketsOf(database.pool, key, waits.length);
  }
  const waiting = Promise.allSettled(waits);
  const barging = barge(serviceAt(1), key);
  releasedAtMs = performance.now();
  await holder.release();
  const giveUp = watchedMs === undefined ? undefined : setTimeout(() => over.abort(), watchedMs);
  const ends = await waiting;
  clearTimeout(giveUp);
  const bargeTryCount = await barging.stop();
  for (const end of ends) {
    if (end.status === 'rejected' && !over.signal.aborted) throw end.reason;
  }
  const granted = await grantsOf(database.pool, key);
  const inLine = new Set(tickets);
  const served = granted.filter((leaseId) => inLine.has(leaseId));
  // After the holder's own grant and up to the last waiter's, a holder without a ticket has barged.
  const lastPlace = granted.findLastIndex((leaseId) => inLine.has(leaseId));
  return {
    wokenMs,
    inOrderCount: tickets.filter((ticket, place) => ticket === served[place]).length,
    bargeTryCount,
    bargedCount: granted.slice(1, lastPlace + 1).length - served.length,
  };
}

/** The tickets in their order, as soon as everyone waits in line. */
async function ticketsOf(pool: pg.Pool, key: string, waiterCount: number): Promise<string[]> {
  const endsAtMs = performance.now() + QUEUED_MS_MAX;
  for (;;) {
    const { rows } = await pool.query<{ ticketId: string }>(
      `select ticket_id as "ticketId" from lease_waiter where face = 'lease' and name = $1 order by id`,
      [key],
    );
    if (rows.length === waiterCount) return rows.map((row) => row.ticketId);
    invariant(
      performance.now() < endsAtMs,
      `everyone waits in line, and it is ${String(rows.length)}`,
    );
    await pause(LOOK_MS);
  }
}

/** All grants of the lease in their order: a ticket's id becomes the grant's. */
async function grantsOf(pool: pg.Pool, key: string): Promise<string[]> {
  const { rows } = await pool.query<{ leaseId: string }>(
    `select lease_id as "leaseId" from lease_event
     where face = 'lease' and name = $1 and kind = 'granted' order by id`,
    [key],
  );
  return rows.map((row) => row.leaseId);
}

/** Asks for the lease again and again without waiting, which is not granted while others wait. */
function barge(service: LeaseholdService, key: string): { stop(): Promise<number> } {
  let isOver = false;
  let tryCount = 0;
  const tryOn = async (): Promise<void> => {
    while (!isOver) {
      const held = await service.takeIfFree(key);
      tryCount += 1;
      await held?.release();
      await pause(BARGE_EVERY_MS);
    }
  };
  const trying = tryOn();
  return {
    /** @returns how often it has tried. */
    async stop() {
      isOver = true;
      await trying;
      return tryCount;
    },
  };
}

/** Ends every session that listens for notifications, again and again. */
function cutNotifications(pool: pg.Pool): () => Promise<void> {
  let isOver = false;
  const cutOn = async (): Promise<void> => {
    while (!isOver) {
      await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query ilike 'listen %'`,
      );
      await pause(CUT_EVERY_MS);
    }
  };
  const cutting = cutOn();
  return async () => {
    isOver = true;
    await cutting;
  };
}
