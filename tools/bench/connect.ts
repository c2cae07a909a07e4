import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createControllerClient } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import type pg from 'pg';
import { WebSocket } from 'ws';
import type { BenchServers, EmptyRouter } from './rig/bench-controller.ts';
import { startChild } from './rig/child.ts';
import { perSecond, times, type Figure } from './rig/figures.ts';
import { insertTokenOf, type Rig } from './rig/rig.ts';
import { compare, rateOf } from './rig/rounds.ts';
import { PRINCIPAL, SEEDED, seedLeases } from './rig/seed.ts';

const CALLER_COUNT = 64;
const BACKEND_COUNT = 1_000;
const GOAL_RATIO = 0.4;

/** `connect` to running backends against a procedure that does nothing, both over one WebSocket. */
export async function measureConnect(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_connect');
  await seedLeases(database.pool, BACKEND_COUNT);
  await insertBackends(database.pool);
  const home = path.join(rig.folder, 'connect-home');
  await mkdir(home);
  const controller = await startChild<BenchServers>('bench-controller', [database.url, home]);
  rig.onClose(() => controller.stop());
  const client = createControllerClient({
    url: controller.ready.controllerUrl,
    token: await insertTokenOf(database, { role: 'client', droneId: null }),
    transport: 'ws',
  });
  const emptySocket = createWSClient({
    url: `${controller.ready.emptyUrl.replace(/^http/u, 'ws')}/trpc`,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket,
  });
  rig.onClose(() => Promise.all([client.close(), emptySocket.close()]));
  const empty = createTRPCClient<EmptyRouter>({ links: [wsLink({ client: emptySocket })] });
  const roundMs = rig.isQuick ? 200 : 2_000;
  let turn = 0;
  const { ours, theirs, ratio } = await compare(
    {
      name: 'connect',
      round: () =>
        rateOf(CALLER_COUNT, roundMs, async () => {
          turn += 1;
          const name = `${SEEDED}${String(turn % BACKEND_COUNT)}`;
          const { spawned, status } = await client.api.keys.connect.mutate({ key: { name } });
          invariant(!spawned && status === 'ready', 'the bench connects to what runs');
        }),
    },
    { name: 'empty', round: () => rateOf(CALLER_COUNT, roundMs, () => empty.empty.mutate()) },
    rig.isQuick ? 2 : 9,
  );
  return [
    {
      what: `connect to running backends, ${String(CALLER_COUNT)} callers, against an empty procedure`,
      ours: perSecond(ours),
      theirs: perSecond(theirs),
      result: times(ratio),
      goal: `>= ${times(GOAL_RATIO)}`,
      isMet: ratio >= GOAL_RATIO,
    },
  ];
}

/** A ready backend for every seeded key, on a drone that stays reachable without a process. */
export async function insertBackends(pool: pg.Pool): Promise<void> {
  await pool.query(
    `insert into drone (id, datacenter, clock_id, session, version, programs, capacity,
       registered_at, local_time_ms, heartbeat_at)
     values ($1, 'bench', gen_random_uuid(), 1, 'bench', '[]', 100000,
       clock_timestamp(), 0, clock_timestamp() + interval '1 day')`,
    [PRINCIPAL],
  );
  await pool.query(
    `insert into backend (id, drone_id, clock_id, datacenter, program, args, env, namespace, name, tag,
       lease_id, fencing_token, status, status_rank, address)
     select 'bk-' || l.name, d.id, d.clock_id, d.datacenter, 'room', '[]', '{}', l.namespace, l.name, l.tag,
       l.lease_id, l.fencing_token, 'ready', 4, '127.0.0.1:4000'
     from lease l
     join drone d on d.id = $1`,
    [PRINCIPAL],
  );
  await pool.query('vacuum analyze backend');
}
