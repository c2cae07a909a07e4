import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { createBootClock } from '@leasehold/service-kit';
import { wardenSource } from '../../apps/drone/src/agent/warden-command.ts';
import type { BenchServers } from './rig/bench-controller.ts';
import { bundled, startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import { residentBytes } from './rig/processes.ts';
import { atMost, megabytes } from './rig/quantities.ts';
import { insertTokenOf, type BenchDatabase, type Rig } from './rig/rig.ts';

const DRONE_ID = 'bench-drone';
const PROGRAM = 'room';
const SPAWNS_AT_ONCE = 25;
const WARDEN_BACKEND_COUNT = 5;
const AGENT_MB_MAX = 120;
const WARDEN_MB_MAX = 60;
/** Three renewals of every key, and the garbage that they leave. */
const HOLD_MS = 16_000;
const LOOK_MS = 250;
const REPLY_MS = 10_000;
const READY_MS_MAX = 120_000;

/** What a drone costs in memory: the agent while it holds keys, the warden with a few backends. */
export async function measureDroneMemory(rig: Rig): Promise<Figure[]> {
  return [await agentMemory(rig), await wardenMemory(rig)];
}

/** The agent as it ships, on a real controller; only its backends exist on paper. */
async function agentMemory(rig: Rig): Promise<Figure> {
  const keyCount = rig.isQuick ? 50 : 1_000;
  const database = await rig.database('bench_drone');
  const home = path.join(rig.folder, 'drone-home');
  await mkdir(home);
  const controller = await startChild<BenchServers>('bench-controller', [database.url, home]);
  rig.onClose(() => controller.stop());
  const { controllerUrl } = controller.ready;
  const client = createControllerClient({
    url: controllerUrl,
    token: await insertTokenOf(database, { role: 'client', droneId: null }),
    transport: 'ws',
  });
  rig.onClose(() => client.close());
  const pid = await startAgent(rig, {
    controllerUrl,
    home,
    capacity: keyCount,
    token: await insertTokenOf(database, { role: 'drone', droneId: DRONE_ID }),
  });
  await spawnBackends(client.api, database, keyCount);
  let mostBytes = 0;
  for (let heldMs = 0; heldMs < (rig.isQuick ? 1_000 : HOLD_MS); heldMs += LOOK_MS) {
    mostBytes = Math.max(mostBytes, residentBytes(pid));
    await pause(LOOK_MS);
  }
  const heldCount = await countReady(database);
  invariant(heldCount === keyCount, `the agent holds all keys, and it is ${String(heldCount)}`);
  return {
    what: `agent's resident memory with ${String(keyCount)} held keys, at most`,
    result: megabytes(mostBytes),
    required: atMost(AGENT_MB_MAX),
  };
}

async function startAgent(
  rig: Rig,
  drone: { controllerUrl: string; home: string; capacity: number; token: string },
): Promise<number> {
  const configFile = path.join(drone.home, 'drone.json');
  await writeFile(
    configFile,
    JSON.stringify({
      droneId: DRONE_ID,
      controllerUrls: [drone.controllerUrl],
      stateDir: path.join(drone.home, 'drone'),
      capacity: drone.capacity,
      programs: { [PROGRAM]: { command: 'on-paper', readiness: { type: 'none' } } },
    }),
  );
  const agent = spawn(
    process.execPath,
    [bundled('simulated-drone'), 'agent', '--config', configFile],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        LEASEHOLD_TOKEN: drone.token,
        LEASEHOLD_DATACENTER: 'bench',
        LEASEHOLD_LOG_LEVEL: 'warn',
      },
    },
  );
  rig.onClose(async () => {
    if (agent.exitCode !== null || agent.signalCode !== null) return;
    agent.kill('SIGKILL');
    await once(agent, 'exit');
  });
  invariant(agent.pid !== undefined, 'the agent has started');
  return agent.pid;
}

/** Connects until every key has a ready backend. The first ones wait for the drone's session. */
async function spawnBackends(
  api: ControllerClient['api'],
  database: BenchDatabase,
  keyCount: number,
): Promise<void> {
  const endsAtMs = performance.now() + READY_MS_MAX;
  for (let first = 0; first < keyCount;) {
    const count = Math.min(SPAWNS_AT_ONCE, keyCount - first);
    const answers = await Promise.allSettled(
      Array.from({ length: count }, (_, place) =>
        api.keys.connect.mutate({
          key: { name: `held-${String(first + place)}` },
          spawn: { program: PROGRAM },
        }),
      ),
    );
    const failed = answers.find((answer) => answer.status === 'rejected');
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

async function countReady({ pool }: BenchDatabase): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from backend where status = 'ready'`,
  );
  return rows[0]?.count ?? 0;
}

/** A real warden with real processes. */
async function wardenMemory(rig: Rig): Promise<Figure> {
  const clock = createBootClock();
  const wardens = wardenSource({
    stateDir: path.join(rig.folder, 'warden'),
    command: [process.execPath, bundled('drone'), 'warden'],
    searchPath: process.env['PATH'] ?? '',
    nowMs: () => clock.nowMs(),
  });
  const warden = await wardens.supply(
    { changed: () => undefined, superseded: () => undefined, lost: () => undefined },
    { replyTimeoutMs: () => REPLY_MS, mayEndSilent: () => Promise.resolve(false) },
  );
  await warden.takeCommand();
  try {
    for (let place = 0; place < WARDEN_BACKEND_COUNT; place += 1) {
      await warden.start({
        backendId: `bk-${String(place)}`,
        leaseId: `lease-${String(place)}`,
        softAtMs: clock.nowMs() + 40_000,
        hardAtMs: clock.nowMs() + 50_000,
        hardAfterMs: 60_000,
        softToHardMs: 10_000,
        leashMs: 2_500,
        program: PROGRAM,
        user: null,
        places: { hidden: [], blocked: [], reads: [], fixed: [] },
        command: 'sleep',
        args: ['3600'],
        env: {},
        cwd: rig.folder,
        stopSignal: 'SIGTERM',
        stopGraceMs: 1_000,
        meta: null,
      });
    }
    let mostBytes = 0;
    for (let look = 0; look < 20; look += 1) {
      mostBytes = Math.max(mostBytes, residentBytes(warden.identity.pid));
      await pause(LOOK_MS);
    }
    return {
      what: `warden's resident memory with ${String(WARDEN_BACKEND_COUNT)} backends, at most`,
      result: megabytes(mostBytes),
      required: atMost(WARDEN_MB_MAX),
    };
  } finally {
    await warden.shutdown();
  }
}
