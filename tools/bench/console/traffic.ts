import { randomUUID } from 'node:crypto';
import { createControllerClient } from '@leasehold/client';
import type pg from 'pg';

const DRONE = 'bench-drone';
const PROGRAM = 'room';
const TICK_MS = 10;

/** A drone that is reachable for a day without a process: what is granted to it expires. */
export async function insertDrone(pool: pg.Pool): Promise<void> {
  await pool.query(
    `insert into drone (id, datacenter, clock_id, session, version, programs, capacity,
       registered_at, local_time_ms, heartbeat_at)
     values ($1, 'bench', gen_random_uuid(), 1, 'bench', $2, 1000000,
       clock_timestamp(), 0, clock_timestamp() + interval '1 day')`,
    [DRONE, JSON.stringify([{ name: PROGRAM, allowArgs: false, allowEnv: [] }])],
  );
}

/** An hour in which as much happened as happens during the measurement: charts draw all of it. */
export async function insertHour(pool: pg.Pool, perSecond: number): Promise<void> {
  await pool.query(
    `insert into stats_bucket (bucket_at, face, grants, expiries, renewals, denials, waits)
     select date_bin('10 s', now() - i * interval '10 s', 'epoch'), 'key',
       $1::int * 10 - i % 7, $1::int * 10 - i % 5, i % 11, i % 3, array[i % 2, i % 3, i % 4, i % 5]
     from generate_series(1, 360) i
     on conflict do nothing`,
    [perSecond],
  );
}

/** Connects to new keys at a rate that does not depend on the answers, until it is stopped. */
export function startTraffic(
  { controllerUrl, token }: { readonly controllerUrl: string; readonly token: string },
  perSecond: number,
): { stop(): Promise<{ readonly grantCount: number; readonly failures: readonly string[] }> } {
  const client = createControllerClient({ url: controllerUrl, token, transport: 'ws' });
  const calls: Promise<void>[] = [];
  const failures: string[] = [];
  const beganAtMs = performance.now();
  let grantCount = 0;
  const connect = async (): Promise<void> => {
    const namespace = `team-${String(calls.length % 50)}`;
    const key = { namespace, name: `fresh-${randomUUID().slice(0, 8)}` };
    try {
      await client.api.keys.connect.mutate({ key, spawn: { program: PROGRAM } });
      grantCount += 1;
    } catch (error) {
      failures.push(String(error));
    }
  };
  const timer = setInterval(() => {
    const dueCount = ((performance.now() - beganAtMs) * perSecond) / 1_000;
    while (calls.length < dueCount) calls.push(connect());
  }, TICK_MS);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(calls);
      await client.close();
      return { grantCount, failures };
    },
  };
}
