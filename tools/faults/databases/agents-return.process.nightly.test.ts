import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { repetitions, startProcess, waitUntil, type TestProcess } from '@leasehold/testing';
import type { ManyAgentsSettings } from '../../../apps/drone/src/testing/many-agents-main.ts';
import { bundleProgram } from '../leases/stage/build-program.ts';
import { FaultStage } from '../stage/stage.ts';
import { machineMs } from '../stage/machine-time.ts';
import { startCallers, tally, type Callers } from './stage/callers.ts';

/** As many as one machine can simulate beside other tests; a thousand in `npm run test:long`. */
const AGENT_COUNT = repetitions({ short: 200, long: 1_000 });
const PROGRAM = 'room';
const LADDER = {
  LEASEHOLD_PRESET: 'standard',
  LEASEHOLD_KEY_RENEW_MS: '10000',
  LEASEHOLD_KEY_SOFT_MS: '40000',
  LEASEHOLD_KEY_HARD_MS: '50000',
  LEASEHOLD_KEY_EXPIRE_MS: '60000',
  LEASEHOLD_HEARTBEAT_MS: '4000',
};
const EXPIRE_MS = 60_000;
const SOFT_MS = 40_000;
/** From the last moment of a renewal to soft, when backends are asked to stop. */
const BACK_MS_MAX = 30_000;
const READY_MS_MAX = 120_000;
const TEST_MS_MAX = 300_000;
const MEMORY_MB_MAX = 400;
const AT_ONCE = 25;
const CALLER_COUNT = 20;
const AGENTS_MAIN = path.join(
  import.meta.dirname,
  '../../../apps/drone/src/testing/many-agents-main.ts',
);

let lease: FaultStage;
beforeAll(async () => {
  lease = await FaultStage.open({ env: LADDER });
});
afterAll(async ({}, file) => {
  await lease.close(file);
});

/** Works on all of them, some at a time. */
async function inTurns<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  const workers = Array.from({ length: AT_ONCE }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  });
  await Promise.all(workers);
}

async function startAgents(droneIds: readonly string[]): Promise<TestProcess> {
  const drones: { droneId: string; token: string }[] = [];
  await inTurns(droneIds, async (droneId) => {
    const wanted = { name: droneId, role: 'drone', droneId } as const;
    const { secret } = await lease.api().tokens.create.mutate(wanted);
    drones.push({ droneId, token: secret });
  });
  const settings = {
    ...{ folder: path.join(lease.folder, 'agents'), drones, program: PROGRAM },
    controllerUrls: [lease.controller().url],
  } satisfies ManyAgentsSettings;
  const agents = await startProcess({
    name: 'agents',
    args: ['--enable-source-maps', await bundleProgram(AGENTS_MAIN), JSON.stringify(settings)],
    env: {},
  });
  lease.onClose(() => agents.kill());
  return agents;
}

/** The number of the session that each drone has now. */
async function sessions(): Promise<Map<string, string>> {
  const rows = await lease.query<{ id: string; session: string }>(
    'select id, session::text from drone',
  );
  return new Map(rows.map(({ id, session }) => [id, session]));
}

/** Asks for a key until its backend is ready. */
async function untilReady(name: string): Promise<void> {
  await waitUntil(async () => {
    const { status } = await lease.api().keys.connect.mutate({
      key: { name },
      spawn: { program: PROGRAM },
      waitFor: 'ready',
    });
    return status === 'ready';
  });
}

interface KeyRow {
  readonly name: string;
  readonly token: string;
}

async function keys(): Promise<Map<string, string>> {
  const rows = await lease.query<KeyRow>(
    `select name, fencing_token::text as token from lease
     where face = 'key' and end_reason is null and clock_timestamp() < expires_at`,
  );
  return new Map(rows.map(({ name, token }) => [name, token]));
}

/** The time that the key with the least has left. */
async function leastRemainingMs(): Promise<number> {
  const [row] = await lease.query<{ least: number }>(
    `select extract(epoch from min(expires_at) - clock_timestamp())::float8 * 1000 as least
     from lease where face = 'key' and end_reason is null`,
  );
  return row?.least ?? 0;
}

/** The most memory that a process ever had, in MB. */
function mostMemoryMb(pid: number): number {
  const text = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/mu.exec(text)?.[1]) / 1_024;
}

async function databaseNow(): Promise<string> {
  const [row] = await lease.query<{ now: string }>('select clock_timestamp()::text as now');
  return row?.now ?? '';
}

test(
  `F15 ${String(AGENT_COUNT)} agents that lose their controller at once are all back before a backend would be stopped, with every key, and its memory is bounded`,
  { timeout: TEST_MS_MAX },
  async () => {
    const names = Array.from({ length: AGENT_COUNT }, (_, index) => String(index));
    const agents = await startAgents(names.map((name) => `agent-${name}`));
    await waitUntil(async () => (await sessions()).size === AGENT_COUNT, {
      what: 'a session of each',
      timeoutMs: READY_MS_MAX,
      pollMs: 200,
    });
    await inTurns(names, untilReady);
    const before = await keys();
    expect(before.size).toBe(AGENT_COUNT);
    const formerSessions = await sessions();
    const former = lease.controller();
    const memoryBeforeMb = mostMemoryMb(former.pid);

    const killedAt = await databaseNow();
    const killedAtMs = machineMs();
    await former.kill();
    await lease.restartController(former);
    const restartedAtMs = machineMs();
    const callers: Callers = startCallers({
      ...{ apis: [lease.api()], namespace: 'fresh', count: CALLER_COUNT },
    });
    let leastMs = Infinity;
    await waitUntil(
      async () => {
        leastMs = Math.min(leastMs, await leastRemainingMs());
        const now = [...(await sessions())];
        return now.every(([id, session]) => session !== formerSessions.get(id));
      },
      { what: 'another session of each', timeoutMs: 2 * BACK_MS_MAX, pollMs: 100 },
    );
    const backAtMs = machineMs();
    await waitUntil(
      async () => {
        leastMs = Math.min(leastMs, await leastRemainingMs());
        const [row] = await lease.query<{ count: number }>(
          `select count(*)::int from lease where face = 'key' and renewed_at > $1::timestamptz`,
          [killedAt],
        );
        return row?.count === AGENT_COUNT;
      },
      { what: 'a renewal of each', timeoutMs: EXPIRE_MS, pollMs: 100 },
    );
    await callers.stop();
    const memoryMb = mostMemoryMb(lease.controller().pid);

    console.log(
      `${String(AGENT_COUNT)} agents: the controller was away for ${String(Math.round(restartedAtMs - killedAtMs))} ms, all were back ${String(Math.round(backAtMs - restartedAtMs))} ms later; the least time left was ${String(Math.round(leastMs))} ms; memory ${String(Math.round(memoryBeforeMb))} MB before, ${String(Math.round(memoryMb))} MB`,
      tally(callers.answers),
      agents.log().slice(0, 2_000),
    );
    expect(backAtMs - restartedAtMs).toBeLessThan(BACK_MS_MAX);
    expect(await keys(), 'no key lost').toEqual(before);
    expect(leastMs, 'no backend came near its soft deadline').toBeGreaterThan(EXPIRE_MS - SOFT_MS);
    expect(memoryMb).toBeLessThan(MEMORY_MB_MAX);
  },
);
