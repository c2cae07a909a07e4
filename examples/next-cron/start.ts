import { createLeasehold } from '@leasehold/client';
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import pg from 'pg';
import { readConfig } from './config.ts';
import { interestJob } from './interest-job.ts';
import { startSchedule } from './schedule.ts';

/** Starts the jobs of this replica. They end with its process, at SIGTERM a little earlier. */
export function startCron(): void {
  const config = readConfig();
  const { replica, ttlMs } = config;
  const stopping = new AbortController();
  process.once('SIGTERM', () => {
    stopping.abort();
  });
  const pool = new pg.Pool({ connectionString: config.databaseUrl });
  // A connection in the pool that breaks is replaced.
  pool.on('error', report);
  const leasehold = createLeasehold({
    url: config.leaseholdUrl,
    token: config.leaseholdToken,
    clientName: replica,
  });
  const core = createLeaseholdCore({ database: pgDatabase(pool) });
  const deps = { leasehold, core, pool, replica, ttlMs, report };
  startSchedule(interestJob(config), deps, stopping.signal);
}

function report(error: unknown): void {
  process.stderr.write(`cron: ${error instanceof Error ? String(error.stack) : String(error)}\n`);
}
