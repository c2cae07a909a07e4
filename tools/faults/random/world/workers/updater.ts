/** Adds entries to a list under a lease, in a transaction that is fenced in one of two ways. */
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, type Lease } from '@leasehold/client';
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { clockOf, codeOf } from '../../../leases/stage/program.ts';
import { machineMs } from '../../../stage/machine-time.ts';
import type { SinkWrite } from '../../history.ts';
import type { WorkerParts } from './parts.ts';
import { NAMESPACE, SINK } from './settings.ts';

const KEY = 'sink';
const TTL_MS = 1_500;
const WAIT_MS = 10_000;
const WORK_MS_MAX = 150;
const AFTER_FAILURE_MS = 100;
/** The refusals of both ways: nothing was changed. */
const REFUSALS = new Set(['lease.not_held', 'lease.lost', 'request.deadline', 'LH001']);

type Query = (text: string, values: unknown[]) => Promise<{ rows: { entries: string[] }[] }>;

export async function runUpdater(parts: WorkerParts): Promise<void> {
  const { settings, signal, diary, random } = parts;
  const leasehold = createLeasehold({
    url: settings.urls,
    token: settings.token,
    clientName: settings.name,
    clock: clockOf(settings.clock),
  });
  const updating = leasehold.defineLease([NAMESPACE], { ttlMs: TTL_MS, waitMs: WAIT_MS });
  const pool = new pg.Pool({ ...connectionOf(settings.databaseUrl), max: 2 });
  pool.on('error', () => undefined);
  // A connection that is reset in the middle of a transaction fails its next statement.
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
  });
  const core = createLeaseholdCore({ database: pgDatabase(pool), onError: () => undefined });

  async function change(query: Query, entry: string): Promise<void> {
    const { rows } = await query(`select entries from ${SINK}`, []);
    await pause(random.whole(0, WORK_MS_MAX));
    const entries = [...(rows[0]?.entries ?? []), entry];
    await query(`update ${SINK} set entries = $1`, [entries]);
  }

  async function asserted(lease: Lease, entry: string): Promise<void> {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await change((text, values) => client.query(text, values), entry);
      const { leaseId, fencingToken } = lease;
      const check = 'select leasehold.leasehold_assert_held($1, $2)';
      await client.query(check, [leaseId, fencingToken]);
      await client.query('commit');
      client.release();
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async function updateOnce(count: number): Promise<void> {
    await using lease = await updating.acquire(KEY, { signal });
    const entry = `${lease.fencingToken}:${settings.name}:${String(count)}`;
    const begunAtMs = machineMs();
    const work = random.chance(0.5)
      ? core.fencedTransaction(lease, (tx) =>
          change((text, values) => tx.query<{ entries: string[] }>(text, values), entry),
        )
      : asserted(lease, entry);
    const outcome = await work.then(
      (): SinkWrite['outcome'] => 'accepted',
      (error: unknown) => (REFUSALS.has(codeOf(error)) ? 'refused' : 'unknown'),
    );
    const knownAtMs = machineMs();
    const write = { entry, token: lease.fencingToken, outcome, begunAtMs, knownAtMs };
    diary.write({ line: 'write', write, atMs: knownAtMs });
  }

  for (let count = 0; !signal.aborted; count += 1) {
    await updateOnce(count).catch(() => pause(AFTER_FAILURE_MS));
  }
  await leasehold.close();
  await pool.end();
}
