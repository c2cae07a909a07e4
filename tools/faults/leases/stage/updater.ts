/**
 * Adds entries to a list under a lease, by reading it, working, and writing it back whole. How the
 * write is guarded is the experiment:
 *
 *   unfenced   by `assertHeld()` shortly before it: each statement stands alone
 *   fenced     by `fencedTransaction`
 *   asserted   by `leasehold_assert_held` as the last statement of a transaction
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, type Lease } from '@leasehold/client';
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { WINDOW_MS } from './updater-window.ts';
import { codeOf, endAsked, grantOf, ready, say, settings } from './program.ts';

export interface UpdaterSettings {
  readonly url: string;
  readonly token: string;
  readonly databaseUrl: string;
  readonly guard: 'unfenced' | 'fenced' | 'asserted';
  readonly ttlMs: number;
}

/** The work before the guard's last check. */
const WORK_MS = 150;
const WAIT_MS = 60_000;

const { url, token, databaseUrl, guard, ttlMs } = settings() as UpdaterSettings;
const leasehold = createLeasehold({ url, token, clientName: `updater-${guard}` });
const updating = leasehold.defineLease(['experiment'], { ttlMs, waitMs: WAIT_MS });

const pool = new pg.Pool({ ...connectionOf(databaseUrl), max: 2 });
pool.on('error', () => undefined);
const core = createLeaseholdCore({ database: pgDatabase(pool) });

/** Between reading and writing. What the process does while it is paused here comes too late. */
async function work(lease: Lease, entry: string): Promise<void> {
  await pause(WORK_MS);
  lease.assertHeld();
  say({ kind: 'window', ...grantOf(lease), entry });
  await pause(WINDOW_MS);
}

interface Row {
  readonly entries: string[];
}

async function unfenced(lease: Lease, entry: string): Promise<void> {
  const { rows } = await pool.query<Row>('select entries from experiment where name = $1', [guard]);
  await work(lease, entry);
  const entries = [...(rows[0]?.entries ?? []), entry];
  await pool.query('update experiment set entries = $2 where name = $1', [guard, entries]);
}

async function fenced(lease: Lease, entry: string): Promise<void> {
  await core.fencedTransaction(lease, async (tx) => {
    const { rows } = await tx.query<Row>('select entries from experiment where name = $1', [guard]);
    await work(lease, entry);
    const entries = [...(rows[0]?.entries ?? []), entry];
    await tx.query('update experiment set entries = $2 where name = $1', [guard, entries]);
  });
}

async function asserted(lease: Lease, entry: string): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query<Row>('select entries from experiment where name = $1', [
      guard,
    ]);
    await work(lease, entry);
    const entries = [...(rows[0]?.entries ?? []), entry];
    await client.query('update experiment set entries = $2 where name = $1', [guard, entries]);
    await client.query('select leasehold.leasehold_assert_held($1, $2)', [
      lease.leaseId,
      lease.fencingToken,
    ]);
    await client.query('commit');
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

const update = { unfenced, fenced, asserted }[guard];
const ending = new AbortController();
const ended = endAsked().then(() => {
  ending.abort();
});

async function updateOnce(count: number): Promise<void> {
  await using lease = await updating.acquire(guard);
  // The token comes first: a reader of the list sees in which order grants have written.
  const entry = `${lease.fencingToken}:${String(process.pid)}:${String(count)}`;
  try {
    await update(lease, entry);
    say({ kind: 'written', entry, token: lease.fencingToken });
  } catch (error) {
    say({ kind: 'refused', entry, why: codeOf(error) });
  }
}

ready();
for (let count = 0; !ending.signal.aborted; count += 1) {
  await updateOnce(count).catch((error: unknown) => {
    say({ kind: 'not_held', key: guard, code: codeOf(error) });
  });
}
await ended;
await leasehold.close();
process.exit(0);
