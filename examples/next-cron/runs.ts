import type { PgTransaction } from '@leasehold/core';
import type pg from 'pg';

/** One due instant that was carried out. */
export interface CronRun {
  readonly job: string;
  readonly dueAt: Date;
  readonly replica: string;
  readonly fencingToken: string;
}

/** Every replica does it at its start; the first one decides from when on the job is due. */
export async function declareJob(pool: pg.Pool, job: string): Promise<void> {
  await pool.query('insert into cron_job (name) values ($1) on conflict do nothing', [job]);
}

/** The instant up to which nothing is due any more. */
export async function doneUntil(pool: pg.Pool, job: string): Promise<Date> {
  const { rows } = await pool.query<{ until: Date }>(
    `select greatest(since, (select max(due_at) from cron_run where job = name)) as until
     from cron_job where name = $1`,
    [job],
  );
  const [found] = rows;
  if (found === undefined) throw new Error(`the job ${job} was not declared`);
  return found.until;
}

export async function recordRun(tx: PgTransaction, run: CronRun): Promise<void> {
  await tx.query(
    'insert into cron_run (job, due_at, replica, fencing_token) values ($1, $2, $3, $4)',
    [run.job, run.dueAt, run.replica, run.fencingToken],
  );
}

/** The last ones first. */
export async function lastRuns(pool: pg.Pool, count: number): Promise<CronRun[]> {
  const { rows } = await pool.query<CronRun>(
    `select job, due_at as "dueAt", replica, fencing_token as "fencingToken"
     from cron_run order by due_at desc limit $1`,
    [count],
  );
  return rows;
}
