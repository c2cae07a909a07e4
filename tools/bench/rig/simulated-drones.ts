/** Agents as they ship, on a real controller; only their backends exist on paper. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { bundled, startChild } from './child.ts';
import { insertTokenOf, type BenchDatabase, type Rig } from './rig.ts';

const PROGRAM = 'room';
/** More than there are by default: each backend has one, though nothing listens there. */
const PORTS = { from: 10_000, to: 59_999 };
const SPAWNS_AT_ONCE = 50;
const LOOK_MS = 250;
/** For each second of it some tens of backends are ready, on a busy machine too. */
const READY_MS_MAX = 300_000;

/** Where drones are, and where they connect to. */
interface Site {
  readonly database: BenchDatabase;
  readonly controllerUrl: string;
}

/** The files that an agent needs, in a folder of its own. */
async function writeDrone(folder: string, droneId: string, of: Site & { capacity: number }) {
  const file = path.join(folder, `${droneId}.json`);
  await writeFile(
    file,
    JSON.stringify({
      droneId,
      controllerUrls: [of.controllerUrl],
      stateDir: path.join(folder, droneId),
      capacity: of.capacity,
      ports: PORTS,
      programs: { [PROGRAM]: { command: 'on-paper', readiness: { type: 'none' } } },
    }),
  );
  return { file, token: await insertTokenOf(of.database, { role: 'drone', droneId }) };
}

/** One agent, in a process of its own. @returns the process. */
export async function startAgent(rig: Rig, site: Site & { capacity: number }): Promise<number> {
  const folder = await mkdtemp(path.join(rig.folder, 'drone-'));
  const { file, token } = await writeDrone(folder, 'bench-drone', site);
  const agent = spawn(process.execPath, [bundled('simulated-drone'), 'agent', '--config', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      NODE_OPTIONS: process.env['NODE_OPTIONS'],
      LEASEHOLD_TOKEN: token,
      LEASEHOLD_DATACENTER: 'bench',
      LEASEHOLD_LOG_LEVEL: 'warn',
    },
  });
  rig.onClose(async () => {
    if (agent.exitCode !== null || agent.signalCode !== null) return;
    agent.kill('SIGKILL');
    await once(agent, 'exit');
  });
  invariant(agent.pid !== undefined, 'the agent has started');
  return agent.pid;
}

/** Many agents in one process, each with a connection of its own. @returns the process. */
export async function startFleet(
  rig: Rig,
  site: Site & { capacity: number },
  agentCount: number,
): Promise<number> {
  const folder = await mkdtemp(path.join(rig.folder, 'fleet-'));
  const drones = await Promise.all(
    Array.from({ length: agentCount }, (_, place) =>
      writeDrone(folder, `bench-drone-${String(place)}`, site),
    ),
  );
  const list = path.join(folder, 'drones.json');
  await writeFile(list, JSON.stringify(drones));
  const fleet = await startChild('simulated-fleet', [list]);
  rig.onClose(() => fleet.stop());
  return fleet.pid;
}

/** Connects until every key has a ready backend. The first ones wait for the session of a drone. */
export async function spawnBackends(
  rig: Rig,
  { database, controllerUrl }: Site,
  keyCount: number,
): Promise<void> {
  const client = createControllerClient({
    url: controllerUrl,
    token: await insertTokenOf(database, { role: 'client', droneId: null }),
    transport: 'ws',
  });
  rig.onClose(() => client.close());
  const endsAtMs = performance.now() + READY_MS_MAX;
  for (let first = 0; first < keyCount;) {
    const count = Math.min(SPAWNS_AT_ONCE, keyCount - first);
    const failed = await spawnSome(client.api, first, count);
    if (failed === undefined) {
      first += count;
      continue;
    }
    if (performance.now() > endsAtMs) throw failed.reason;
    await pause(LOOK_MS);
  }
  while ((await countReady(database)) < keyCount) {
    invariant(performance.now() < endsAtMs, 'the backends become ready');
    await pause(LOOK_MS);
  }
}

async function spawnSome(
  api: ControllerClient['api'],
  first: number,
  count: number,
): Promise<PromiseRejectedResult | undefined> {
  const answers = await Promise.allSettled(
    Array.from({ length: count }, (_, place) =>
      api.keys.connect.mutate({
        key: { name: `held-${String(first + place)}` },
        spawn: { program: PROGRAM },
      }),
    ),
  );
  return answers.find((answer) => answer.status === 'rejected');
}

export async function countReady({ pool }: BenchDatabase): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from backend where status = 'ready'`,
  );
  return rows[0]?.count ?? 0;
}
