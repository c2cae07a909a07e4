import { setTimeout as pause } from 'node:timers/promises';
import {
  LeaseWaitTimeoutError,
  type Lease,
  type LeaseDefinition,
  type Leasehold,
} from '@leasehold/client';
import type { LeaseholdCore, PgTransaction } from '@leasehold/core';
import { Cron } from 'croner';
import type pg from 'pg';
import { declareJob, doneUntil, recordRun } from './runs.ts';

/** After an error: a controller that restarts, a job that throws. */
const RETRY_MS = 5_000;
/** A replica that waits looks again after so many TTLs. */
const WAIT_TTLS = 2;
/** An instant that nobody carried out for so long is left out. */
const CATCH_UP_MS = 3_600_000;

/** One due instant of a job, while this replica holds the lease of the job. */
export interface Turn {
  readonly dueAt: Date;
  /** Aborts before another replica can have the lease. */
  readonly signal: AbortSignal;
}

export interface CronJob<Result> {
  readonly name: string;
  /** In UTC, so that no instant comes twice or never when the clocks change. */
  readonly pattern: string;
  /** May take long and reach out of the database. After a crash it happens again. */
  work(turn: Turn): Promise<Result>;
  /** In the transaction that records the run: happens once. It has 10 s at most. */
  save(tx: PgTransaction, result: Result, dueAt: Date): Promise<void>;
}

export interface ScheduleDeps {
  readonly leasehold: Leasehold;
  readonly core: LeaseholdCore<PgTransaction>;
  readonly pool: pg.Pool;
  readonly replica: string;
  readonly ttlMs: number;
  readonly report: (error: unknown) => void;
}

interface Schedule<Result> extends ScheduleDeps {
  readonly job: CronJob<Result>;
  readonly cron: Cron;
  readonly leases: LeaseDefinition;
  readonly stopping: AbortSignal;
}

/** Takes part in carrying out a job until `stopping` aborts. */
export function startSchedule<Result>(
  job: CronJob<Result>,
  deps: ScheduleDeps,
  stopping: AbortSignal,
): void {
  const { leasehold, ttlMs } = deps;
  const leases = leasehold.defineLease(['cron'], { ttlMs, waitMs: WAIT_TTLS * ttlMs });
  // While one call catches up, `protect` leaves out the next: what became due meanwhile is done by the first.
  const options = { timezone: 'UTC', protect: true };
  const cron = new Cron(job.pattern, options, () => catchUp(schedule));
  const schedule: Schedule<Result> = { ...deps, job, cron, leases, stopping };
  stopping.addEventListener('abort', () => {
    cron.stop();
  });
  // What became due while no replica ran.
  void cron.trigger();
}

/** Ends when nothing is due. */
async function catchUp<Result>(schedule: Schedule<Result>): Promise<void> {
  const { job, leases, pool, stopping } = schedule;
  while (!stopping.aborted) {
    try {
      await declareJob(pool, job.name);
      if ((await nextDue(schedule)) === undefined) return;
      await leases.run(job.name, (lease) => runNext(schedule, lease), { signal: stopping });
    } catch (error) {
      // A long run of somebody else: look again.
      if (!(error instanceof LeaseWaitTimeoutError)) await failed(schedule, error);
    }
  }
}

async function runNext<Result>(schedule: Schedule<Result>, lease: Lease): Promise<void> {
  const { job, core, replica, stopping } = schedule;
  // The holder before may have done it.
  const dueAt = await nextDue(schedule);
  if (dueAt === undefined) return;
  const signal = AbortSignal.any([lease.signal, stopping]);
  const result = await job.work({ dueAt, signal });
  await core.fencedTransaction(lease, async (tx) => {
    await recordRun(tx, { job: job.name, dueAt, replica, fencingToken: lease.fencingToken });
    await job.save(tx, result, dueAt);
  });
}

/** The oldest instant that is due and not recorded. */
async function nextDue<Result>({ job, cron, pool }: Schedule<Result>): Promise<Date | undefined> {
  const done = await doneUntil(pool, job.name);
  // Read last: if nothing is due by then, the next call of `catchUp` comes after the end of this one.
  const nowMs = Date.now();
  const dueAt = cron.nextRun(new Date(Math.max(done.getTime(), nowMs - CATCH_UP_MS)));
  return dueAt !== null && dueAt.getTime() <= nowMs ? dueAt : undefined;
}

async function failed<Result>(
  { report, stopping }: Schedule<Result>,
  error: unknown,
): Promise<void> {
  if (stopping.aborted) return;
  report(error);
  await pause(RETRY_MS, undefined, { signal: stopping }).catch(() => undefined);
}
