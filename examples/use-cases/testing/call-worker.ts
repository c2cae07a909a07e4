/** A coordinator that begins a call and never ends it: `call-worker.ts DATABASE_URL`. */
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import pg from 'pg';
import { AsyncCalls } from '../async-calls.ts';

const [databaseUrl = ''] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: databaseUrl, options: '-c search_path=public' });
const core = createLeaseholdCore({ database: pgDatabase(pool) });
const coordinator = core.coordinator({
  holder: `worker ${String(process.pid)}`,
  principal: 'service',
});

process.once('disconnect', () => {
  process.exit(1);
});
await new AsyncCalls(coordinator, pool).executeNext(() => {
  process.send?.({ type: 'ready' });
  return new Promise(() => undefined);
});
