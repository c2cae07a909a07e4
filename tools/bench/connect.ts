import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import type pg from 'pg';
import { WebSocket } from 'ws';
import type { BenchServers, EmptyRouter } from './rig/bench-controller.ts';
import { startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import { atLeast, atMost, milliseconds, perSecond, times } from './rig/quantities.ts';
import { insertTokenOf, type Rig } from './rig/rig.ts';
import { compare, durationMsOf, quantile, rateOf } from './rig/rounds.ts';
import { PRINCIPAL, SEEDED, seedLeases } from './rig/seed.ts';

const CALLER_COUNT = 64;
const BACKEND_COUNT = 1_000;
const PROGRAM = 'room';

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
      required: atLeast(0.6),
      goal: atLeast(0.8),
    },
    ...(await measureFresh(client.api, rig.isQuick ? 20 : 400)),
  ];
}

/** One caller connects to keys that never ran: until the answer that says where the backend starts. */
async function measureFresh(api: ControllerClient['api'], triesCount: number): Promise<Figure[]> {
  const connect = async (place: number): Promise<void> => {
    const key = { name: `fresh-${String(place)}` };
    const { spawned } = await api.keys.connect.mutate({ key, spawn: { program: PROGRAM } });
    invariant(spawned, 'nothing runs for a fresh key');
  };
  const tookMs: number[] = [];
  for (let place = 0; place < triesCount; place += 1) {
    tookMs.push(await durationMsOf(() => connect(place)));
  }
  return [
    {
      what: 'connect to a fresh key until it is answered, one caller, p50',
      result: milliseconds(quantile(tookMs, 0.5)),
      required: atMost(15),
      goal: atMost(10),
    },
    {
      what: 'connect to a fresh key until it is answered, one caller, p99',
      result: milliseconds(quantile(tookMs, 0.99)),
    },
  ];
}

/** A ready backend for every seeded key, on a drone that stays reachable without a process. */
export async function insertBackends(pool: pg.Pool): Promise<void> {
  await pool.query(
    `insert into drone (id, datacenter, clock_id, session, version, programs, capacity,
       registered_at, local_time_ms, heartbeat_at)
     values ($1, 'bench', gen_random_uuid(), 1, 'bench', $2, 100000,
       clock_timestamp(), 0, clock_timestamp() + interval '1 day')`,
    [PRINCIPAL, JSON.stringify([{ name: PROGRAM, allowArgs: false, allowEnv: [] }])],
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
