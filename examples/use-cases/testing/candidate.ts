/** A controller that runs for leader, as a process of its own: `candidate.ts DATABASE_URL ADDRESS TTL_MS`. */
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import pg from 'pg';
import { runForLeader } from '../leader.ts';

const [databaseUrl = '', address = '', ttlMs = ''] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: databaseUrl });
// A session that the server ends while it is idle is no failure of the process.
pool.on('error', () => undefined);
const core = createLeaseholdCore({ database: pgDatabase(pool) });

const running = new AbortController();
process.once('SIGTERM', () => {
  running.abort();
});
process.once('disconnect', () => {
  process.exit(1);
});

process.send?.({ type: 'ready' });
await runForLeader(
  {
    coordinator: core.coordinator({ holder: address, principal: 'service' }),
    clock: core.clock,
    ttlMs: Number(ttlMs),
    lead: () => undefined,
    follow: () => undefined,
    report: () => undefined,
  },
  running.signal,
);
await pool.end();
process.disconnect();
