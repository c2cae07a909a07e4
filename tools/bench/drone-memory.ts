import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import { createBootClock } from '@leasehold/service-kit';
import { wardenSource } from '../../apps/drone/src/agent/warden-command.ts';
import type { BenchServers } from './rig/bench-controller.ts';
import { bundled, startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import { residentBytes } from './rig/processes.ts';
import { atMost, megabytes } from './rig/quantities.ts';
import type { Rig } from './rig/rig.ts';
import { countReady, spawnBackends, startAgent } from './rig/simulated-drones.ts';

const PROGRAM = 'room';
const WARDEN_BACKEND_COUNT = 5;
const AGENT_MB_MAX = 120;
const WARDEN_MB_MAX = 60;
/** Three renewals of every key, and the garbage that they leave. */
const HOLD_MS = 16_000;
const LOOK_MS = 250;
const REPLY_MS = 10_000;

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
  const site = { database, controllerUrl };
  const pid = await startAgent(rig, { ...site, capacity: keyCount });
  await spawnBackends(rig, site, keyCount);
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
    {
      changed: () => undefined,
      cooled: () => undefined,
      superseded: () => undefined,
      lost: () => undefined,
    },
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
