import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createControllerClient, createLeasehold, type ControllerClient } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import type pg from 'pg';
import { WebSocket } from 'ws';
import type { BenchServers, EmptyRouter } from './rig/bench-controller.ts';
import { startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import { openFrames, openTurns } from './rig/frames.ts';
import { Meter } from './rig/meter.ts';
import { readProcessorTime } from './rig/processor-time.ts';
import { atLeast, atMost, milliseconds, perSecond, times } from './rig/quantities.ts';
import { insertTokenOf, type Rig } from './rig/rig.ts';
import {
  compareRates,
  durationMsOf,
  quantile,
  rateOf,
  type Side,
  takeTurns,
} from './rig/rounds.ts';
import { PRINCIPAL, SEEDED, seedLeases } from './rig/seed.ts';
import { openFloor } from './services/floors.ts';

const CALLER_COUNT = 64;
const CALLERS = `${String(CALLER_COUNT)} callers`;
const BACKEND_COUNT = 1_000;
const PROGRAM = 'room';
const ONE_KEY = { name: `${SEEDED}0` };

/** The key of a backend that runs: each caller asks for another one each time. */
interface RunningKey {
  readonly name: string;
}

/**
 * `connect` to running backends, all over one WebSocket: as a service does it, through the client library, and as
 * a procedure alone, against a procedure that does nothing and a bare server that sends each frame back.
 */
export async function measureConnect(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_connect');
  await seedLeases(database.pool, BACKEND_COUNT);
  await insertBackends(database.pool);
  const home = path.join(rig.folder, 'connect-home');
  await mkdir(home);
  const controller = await startChild<BenchServers>('bench-controller', [database.url, home]);
  rig.onClose(() => controller.stop());
  const token = await insertTokenOf(database, { role: 'client', droneId: null });
  const url = controller.ready.controllerUrl;
  const client = createControllerClient({ url, token, transport: 'ws' });
  const leasehold = createLeasehold({ url, token, clientName: 'bench' });
  rig.onClose(() => Promise.all([client.close(), leasehold.close()]));
  const { keys } = leasehold;
  const meter = new Meter(() =>
    readProcessorTime({ controllerPids: [controller.pid], postgresFolder: rig.folder }),
  );
  const sides = {
    ours: sideOf(rig, 'connect', async (key) => isRunning(await keys.connect({ key }))),
    spawning: sideOf(rig, 'connect that may start', async (key) =>
      isRunning(await keys.connect({ key, spawn: { program: PROGRAM } })),
    ),
    ofOneKey: sideOf(rig, 'connect to one key', async () =>
      isRunning(await keys.connect({ key: ONE_KEY })),
    ),
    procedure: sideOf(rig, 'procedure', async (key) =>
      isRunning(await client.api.keys.connect.mutate({ key })),
    ),
    empty: sideOf(rig, 'empty procedure', await openEmpty(rig, controller.ready.emptyUrl)),
    ...(await openEchoes(rig)),
    floor: await openLooks(rig),
  };
  const { ours } = sides;
  const measured = { ...sides, ours: { ...ours, round: () => meter.during(ours.round) } };
  const rates = await takeTurns(Object.values(measured), rig.isQuick ? 2 : 9);
  const names = Object.keys(measured);
  const ratesOf = (name: SideName): number[] => rates[names.indexOf(name)] ?? [];
  const against = (side: SideName, peer: SideName): Compared => {
    const { ours, theirs, ratio } = compareRates(ratesOf(side), ratesOf(peer));
    return { ours: perSecond(ours), theirs: perSecond(theirs), result: times(ratio) };
  };
  return [
    ...ratioFigures(against),
    ...meter.eachCall(`processor time for each connect, ${CALLERS}`),
    meter.coresInUse(`cores in use by connects, ${CALLERS}`),
    ...(await measureFresh(client.api, rig.isQuick ? 20 : 400)),
  ];
}

type SideName =
  'ours' | 'spawning' | 'ofOneKey' | 'procedure' | 'empty' | 'echo' | 'echoOfTurns' | 'floor';

/** @param against compares a side with another one. */
function ratioFigures(against: (side: SideName, peer: SideName) => Compared): Figure[] {
  return [
    {
      what: `connect to running backends, ${CALLERS}, against a bare \`ws\` echo`,
      ...against('ours', 'echo'),
      required: atLeast(0.5),
      goal: atLeast(0.7),
    },
    {
      what: `… against an echo of frames that hold all calls of a turn`,
      ...against('ours', 'echoOfTurns'),
    },
    {
      what: `… against the floor: a bare \`ws\` server that reads the rows of a turn`,
      ...against('ours', 'floor'),
    },
    {
      what: `the floor, against a bare \`ws\` echo`,
      ...against('floor', 'echo'),
    },
    {
      what: `connect that may start a backend, against a bare \`ws\` echo`,
      ...against('spawning', 'echo'),
    },
    {
      what: `connect to one key by all, against a bare \`ws\` echo`,
      ...against('ofOneKey', 'echo'),
    },
    {
      what: `keys.connect without the client library, ${CALLERS}, against an empty procedure`,
      ...against('procedure', 'empty'),
      required: atLeast(0.6),
      goal: atLeast(0.8),
    },
  ];
}

type Compared = Pick<Figure, 'ours' | 'theirs' | 'result'>;

function sideOf(rig: Rig, name: string, call: (key: RunningKey) => Promise<unknown>): Side {
  let turn = 0;
  const work = (): Promise<unknown> => {
    turn += 1;
    return call({ name: `${SEEDED}${String(turn % BACKEND_COUNT)}` });
  };
  return { name, round: () => rateOf(CALLER_COUNT, rig.isQuick ? 200 : 2_000, work) };
}

function isRunning({ spawned, status }: { spawned: boolean; status: string }): void {
  invariant(!spawned && status === 'ready', 'the bench connects to what runs');
}

/** A procedure that does nothing, over tRPC's own client. */
async function openEmpty(rig: Rig, url: string): Promise<() => Promise<unknown>> {
  const socket = createWSClient({
    url: `${url.replace(/^http/u, 'ws')}/trpc`,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket,
  });
  rig.onClose(() => socket.close());
  const empty = createTRPCClient<EmptyRouter>({ links: [wsLink({ client: socket })] });
  await empty.empty.mutate();
  return () => empty.empty.mutate();
}

async function openEchoes(rig: Rig): Promise<Record<'echo' | 'echoOfTurns', Side>> {
  const server = await startChild<string>('echo-server', []);
  rig.onClose(() => server.stop());
  const call = await openFrames<RunningKey>(rig, server.ready);
  const callOfTurn = await openTurns<RunningKey>(rig, server.ready);
  return {
    echo: sideOf(rig, 'echo', call),
    echoOfTurns: sideOf(rig, 'echo of turns', callOfTurn),
  };
}

/** What a read of the database costs that all calls of a turn share. */
async function openLooks(rig: Rig): Promise<Side> {
  const floor = await openFloor(rig, 'bench_connect_floor');
  const names = Array.from({ length: BACKEND_COUNT }, (_, place) => `${SEEDED}${String(place)}`);
  await Promise.all(names.map((name) => floor.take(name)));
  return sideOf(rig, 'the floor', async ({ name }) => {
    const { token } = await floor.look(name);
    invariant(token !== undefined, 'the floor looks for what is held');
  });
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
