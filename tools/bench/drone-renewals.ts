import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import type { BenchServers } from './rig/bench-controller.ts';
import { startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import { readProcessorTime, usedUs } from './rig/processor-time.ts';
import { microseconds } from './rig/quantities.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { countReady, spawnBackends, startAgent, startFleet } from './rig/simulated-drones.ts';

const KEY_COUNT = 10_000;
const AGENT_COUNT = 200;
const KEYS_OF_AN_AGENT = 10;
/** More than it holds: a drone is chosen by what it had at its last heartbeat. */
const CAPACITY = 40;
/** Several renewals of every key: the controller asks for one each 5 s. */
const WATCHED_MS = 20_000;
/** Backends that were started at once are renewed at once; after two renewals less so. */
const SETTLE_MS = 10_000;

/** What drones cost that only hold what they have: renewals, heartbeats, and the agent's own work. */
export async function measureDroneRenewals(rig: Rig): Promise<Figure[]> {
  const keyCount = rig.isQuick ? 100 : KEY_COUNT;
  const one = await openSite(rig, 'bench_drone_keys');
  const agentPid = await startAgent(rig, { ...one, capacity: keyCount });
  await spawnBackends(rig, one, keyCount);
  const figures = each(
    `${keyCount.toLocaleString('en')} keys of one agent, renewed every 5 s: processor time for each key and second`,
    await watch(rig, { ...one, dronesPid: agentPid, keyCount }),
    keyCount,
  );
  await rig.clear();
  const agentCount = rig.isQuick ? 3 : AGENT_COUNT;
  const keysCount = agentCount * KEYS_OF_AN_AGENT;
  const many = await openSite(rig, 'bench_drone_fleet');
  const fleetPid = await startFleet(rig, { ...many, capacity: CAPACITY }, agentCount);
  await spawnBackends(rig, many, keysCount);
  figures.push(
    ...each(
      `${String(agentCount)} agents of ${String(KEYS_OF_AN_AGENT)} keys, a heartbeat each second: processor time for each agent and second`,
      await watch(rig, { ...many, dronesPid: fleetPid, keyCount: keysCount }),
      agentCount,
    ),
  );
  return figures;
}

interface Site {
  readonly database: BenchDatabase;
  readonly controllerUrl: string;
  readonly controllerPid: number;
}

async function openSite(rig: Rig, name: string): Promise<Site> {
  const database = await rig.database(name);
  const home = await mkdtemp(path.join(rig.folder, 'controller-'));
  const controller = await startChild<BenchServers>('bench-controller', [database.url, home]);
  rig.onClose(() => controller.stop());
  const { controllerUrl } = controller.ready;
  return { database, controllerUrl, controllerPid: controller.pid };
}

/** Microseconds of processor time for each second. */
type Use = Readonly<Record<'agent' | 'controller' | 'postgres', number>>;

/** What each party uses while all keys are held. */
async function watch(
  rig: Rig,
  of: Site & { readonly dronesPid: number; readonly keyCount: number },
): Promise<Use> {
  await pause(rig.isQuick ? 1_000 : SETTLE_MS);
  const read = () => ({
    ...readProcessorTime({ controllerPids: [of.controllerPid], postgresFolder: rig.folder }),
    agent: usedUs(of.dronesPid),
  });
  const before = read();
  const startedAtMs = performance.now();
  await pause(rig.isQuick ? 2_000 : WATCHED_MS);
  const after = read();
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const heldCount = await countReady(of.database);
  invariant(heldCount === of.keyCount, `all keys are held, and it is ${String(heldCount)}`);
  return {
    agent: (after.agent - before.agent) / seconds,
    controller: (after.controller - before.controller) / seconds,
    postgres: (after.postgres - before.postgres) / seconds,
  };
}

function each(what: string, use: Use, count: number): Figure[] {
  return Object.entries(use).map(([party, us]) => ({
    what: `${what}, ${party}`,
    result: microseconds(us / count),
  }));
}
