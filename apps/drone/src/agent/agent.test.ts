import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TerminateAction } from '@leasehold/api';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import type { DroneConfig } from '../config.ts';
import { ScriptedController } from '../testing/scripted-controller.ts';
import { SimulatedWarden } from '../testing/simulated-warden.ts';
import { until } from '../testing/wait.ts';
import { DroneAgent, type AgentOptions } from './agent.ts';
import { WardenLost, type WardenListener } from './warden-link.ts';

const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

const room: DroneConfig['programs'][string] = {
  command: '/bin/true',
  args: [],
  env: {},
  cwd: '/',
  port: 'auto',
  stopSignal: 'SIGTERM',
  stopGraceMs: 1_000,
  readiness: { type: 'none', timeoutMs: 300_000, intervalMs: 100 },
  allowArgs: false,
  allowEnv: [],
};

let stateDir: string;
let clock: TickingClock;
let warden: SimulatedWarden;
let controller: ScriptedController;
let agents: DroneAgent[];

beforeEach(() => {
  stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-agent-'));
  clock = createBootClock();
  warden = new SimulatedWarden(() => clock.nowMs());
  controller = new ScriptedController();
  agents = [];
});
afterEach(async () => {
  for (const agent of agents) await agent.leave();
  rmSync(stateDir, { recursive: true, force: true });
});

async function startAgent(
  programs: DroneConfig['programs'] = { room },
  supplyWarden: AgentOptions['supplyWarden'] = (listener) => warden.supply(listener),
): Promise<DroneAgent> {
  const config: DroneConfig = {
    droneId: 'drone-1',
    datacenter: 'local',
    controllerUrls: ['http://127.0.0.1:1'],
    token: 'lh_none',
    stateDir,
    capacity: 10,
    host: '127.0.0.1',
    ports: { from: 31_000, to: 31_100 },
    programs,
    logLevel: 'silent',
  };
  const agent = await DroneAgent.start({
    config,
    clock,
    log: quiet,
    random: () => 0.5,
    version: '0.0.0',
    link: controller,
    inheritedEnv: {},
    supplyWarden,
  });
  agents.push(agent);
  await until('a heartbeat says that the session is open', () => controller.heartbeats.length > 0);
  return agent;
}

async function untilReported(status: string, backendId = 'b1'): Promise<void> {
  await until(`${backendId} is reported ${status}`, () =>
    controller.statusesOf(backendId).includes(status),
  );
}

function terminateOf(backendId: string, actionId: string): TerminateAction {
  return {
    kind: 'terminate',
    actionId,
    session: controller.session,
    clockId: warden.identity.clockId,
    backendId,
    mode: 'soft',
    reason: 'external',
  };
}

/** Nothing more comes: said by a later action having been carried out. */
async function untilSettled(): Promise<void> {
  controller.send(terminateOf('nobody', '999'));
  await until('a later action is acknowledged', () => controller.acks.includes('999'));
}

describe('what people are told of a drone', () => {
  test('each heartbeat says how long the one before took, and nothing when that got no answer', async () => {
    let beats = 0;
    controller.answerHeartbeat = async () => {
      beats += 1;
      if (beats === 2) throw new Error('no answer');
      await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await startAgent();

    await until('four heartbeats were sent', () => controller.heartbeats.length >= 4);

    const [first, second, third, fourth] = controller.heartbeats.map(
      ({ load }) => load.roundTripMs,
    );
    expect([first, third]).toEqual([undefined, undefined]);
    expect(second).toBeGreaterThanOrEqual(15);
    expect(fourth).toBeGreaterThanOrEqual(15);
  });

  test('a session says where the output of backends is', async () => {
    await startAgent();

    expect(controller.sessionInput?.logFolder).toBe(path.join(stateDir, 'logs'));
  });
});

describe('spawn', () => {
  test('starts a program only after the first renewal was answered, on the deadlines of that answer', async () => {
    await startAgent();
    const order: string[] = [];
    controller.answerRenewal = (input, leaseId) => {
      order.push(`renewed with ${String(warden.started.length)} started`);
      return controller.renewed(input, leaseId);
    };

    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('ready');

    expect(order[0]).toBe('renewed with 0 started');
    expect(controller.statusesOf('b1')).toEqual(['loading', 'starting', 'waiting', 'ready']);
    const [renewal] = controller.renewals;
    expect(warden.started[0]?.hardAtMs).toBe(
      (renewal?.localTimeMs ?? 0) + controller.ladder.hardAfterMs,
    );
    expect(controller.acks).toEqual(['1']);
  });

  test('C50 a grant that was revoked before the start: nothing is started, and the end is reported', async () => {
    await startAgent();
    controller.answerRenewal = (_input, leaseId) => ({
      leaseId,
      outcome: 'refused',
      reason: 'revoked',
    });

    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('terminated');

    expect(warden.started).toEqual([]);
    expect(controller.reports.at(-1)).toMatchObject({ status: 'terminated', reason: 'revoked' });
  });

  test('C49 a late duplicate for a living backend is only acknowledged', async () => {
    await startAgent();
    const action = controller.spawnAt(clock.nowMs());
    controller.send(action);
    await untilReported('ready');

    controller.send({ ...action, actionId: '2', deadlines: controller.spawnAt(0).deadlines });
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toHaveLength(1);
    expect(controller.statusesOf('b1')).not.toContain('terminated');
  });

  test('C49 a duplicate after the backend ended and the agent was restarted starts nothing', async () => {
    const former = await startAgent();
    const action = controller.spawnAt(clock.nowMs());
    controller.send(action);
    await untilReported('ready');
    warden.exit('b1', 0);
    await untilReported('terminated');
    await former.leave();
    controller.heartbeats.length = 0;
    await startAgent();

    controller.send({ ...action, actionId: '2', session: controller.session });
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toHaveLength(1);
  });

  test('C47 deadlines of another clock are refused: another clock id, or too far ahead', async () => {
    await startAgent();

    controller.send(
      controller.spawnAt(clock.nowMs(), {
        backendId: 'b1',
        clockId: '00000000-0000-4000-8000-000000000000',
      }),
    );
    controller.send(
      controller.spawnAt(clock.nowMs() + 864_000_000, { backendId: 'b2', actionId: '2' }),
    );
    await untilReported('terminated', 'b1');
    await untilReported('terminated', 'b2');

    expect(controller.reports.map(({ refused }) => refused)).toEqual([true, true]);
    expect(warden.started).toEqual([]);
  });

  test('what the drone does not offer or allow is refused in words', async () => {
    await startAgent();

    controller.send(controller.spawnAt(clock.nowMs(), { backendId: 'b1', program: 'other' }));
    controller.send(
      controller.spawnAt(clock.nowMs(), { backendId: 'b2', actionId: '2', args: ['--root'] }),
    );
    await untilReported('terminated', 'b1');
    await untilReported('terminated', 'b2');

    expect(controller.reports.map(({ detail }) => detail)).toEqual([
      'the drone does not offer the program',
      'the program takes no arguments',
    ]);
  });

  test('an action of an older session is dropped', async () => {
    await startAgent();

    controller.send(controller.spawnAt(clock.nowMs(), { session: controller.session - 1 }));
    await untilSettled();

    expect(controller.statusesOf('b1')).toEqual([]);
    expect(controller.acks).toEqual(['999']);
  });
});

describe('terminate', () => {
  test('of a backend that is not known: it is never started afterwards', async () => {
    await startAgent();
    const late = controller.spawnAt(clock.nowMs(), { actionId: '2' });

    controller.send(terminateOf('b1', '1'));
    await untilReported('terminated');
    controller.send(late);
    await until('the spawn is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toEqual([]);
    expect(controller.reports.at(-1)).toMatchObject({ status: 'terminated', refused: true });
  });

  test('of a backend that is being launched: acknowledged when the warden has heard it', async () => {
    await startAgent();
    warden.ignoresStops = true;
    const start = warden.start.bind(warden);
    let finish: () => void = () => undefined;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    warden.start = async (request) => {
      await finished;
      return start(request);
    };
    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('starting');

    controller.send(terminateOf('b1', '2'));
    await untilSettled();
    expect(controller.acks).not.toContain('2');
    finish();
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.stops.at(-1)).toMatchObject({ backendId: 'b1', reason: 'external' });
  });

  test('of a backend that could not be adopted: its end is said when the warden has seen it', async () => {
    const former = await startAgent();
    warden.ignoresStops = true;
    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('ready');
    await former.leave();
    controller.heartbeats.length = 0;
    await startAgent({});

    controller.send(terminateOf('b1', '2'));
    await until('it is acknowledged', () => controller.acks.includes('2'));
    await untilSettled();

    expect(controller.statusesOf('b1')).not.toContain('terminated');
    expect(warden.stops.at(-2)).toMatchObject({ backendId: 'b1', reason: 'external' });
    warden.exit('b1', 0);
    await untilReported('terminated');
  });
});

describe('renewal', () => {
  test('goes on until the report of the end is answered, and then stops', async () => {
    await startAgent();
    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('ready');
    controller.answerReport = ({ status }) =>
      status === 'terminated' ? new Error('lost') : 'recorded';
    warden.exit('b1', 0);
    await untilReported('terminated');
    const before = controller.renewals.length;

    await until('its key is renewed once more', () => controller.renewals.length > before, 8_000);
    controller.answerReport = () => 'recorded';
    await until('its record is dropped', async () => (await warden.list()).length === 0);

    expect(
      controller.reports.filter(({ status }) => status === 'terminated').length,
    ).toBeGreaterThan(1);
  });

  test('is not asked for a backend that the warden does not know to be alive', async () => {
    await startAgent();
    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('ready');
    const before = controller.renewals.length;

    await warden.shutdown(); // it has lost the backend and told nobody
    await until('the agent stops it at its soft deadline', () => warden.stops.length > 0, 8_000);

    expect(controller.renewals).toHaveLength(before);
    expect(warden.stops[0]).toMatchObject({ mode: 'soft', reason: 'key_expired', isKeyLost: true });
  });

  test('that is refused stops the backend at once, and says that the key is lost', async () => {
    await startAgent();
    controller.send(controller.spawnAt(clock.nowMs()));
    await untilReported('ready');

    controller.answerRenewal = (_input, leaseId) => ({
      leaseId,
      outcome: 'refused',
      reason: 'renewal_blocked',
    });
    await untilReported('terminated');

    expect(warden.stops[0]).toMatchObject({
      mode: 'soft',
      reason: 'renewal_refused',
      isKeyLost: true,
    });
    expect(controller.reports.at(-1)).toMatchObject({ reason: 'renewal_refused', exitCode: 0 });
  });
});

test('a report that is answered `kill` stops the backend hard', async () => {
  await startAgent();
  controller.answerReport = ({ status }) => (status === 'ready' ? 'kill' : 'recorded');

  controller.send(controller.spawnAt(clock.nowMs()));
  await untilReported('terminated');

  expect(warden.stops[0]).toMatchObject({ mode: 'hard' });
});

test('F4b the next agent adopts what runs, with its port, and finishes what has ended meanwhile', async () => {
  const former = await startAgent();
  controller.send(controller.spawnAt(clock.nowMs(), { backendId: 'b1' }));
  controller.send(
    controller.spawnAt(clock.nowMs(), {
      backendId: 'b2',
      actionId: '2',
      leaseId: '6f1dd2cc-0b3a-4b0e-9a2c-0d6d8b0b7f02',
    }),
  );
  await untilReported('ready', 'b1');
  await untilReported('ready', 'b2');
  await former.leave();
  warden.exit('b2', 9);
  controller.reports.length = 0;
  controller.heartbeats.length = 0;

  await startAgent();
  await untilReported('terminated', 'b2');

  expect(controller.statusesOf('b1')).toEqual(['ready']);
  expect(controller.reports.find(({ backendId }) => backendId === 'b1')?.address).toMatch(
    /^127\.0\.0\.1:31\d{3}$/u,
  );
  expect(controller.statusesOf('b2')).toEqual(['terminated']);
  expect(warden.started).toHaveLength(2);
});

test('a warden that is lost again while it is being adopted: one recovery goes on, and it ends well', async () => {
  const listeners: WardenListener[] = [];
  const lists: (() => void)[] = [];
  await startAgent({ room }, async (listener) => {
    listeners.push(listener);
    const link = await warden.supply(listener);
    if (listeners.length !== 2) return link;
    warden.list = () =>
      new Promise((_resolve, reject) => {
        lists.push(() => {
          reject(new WardenLost('gone'));
        });
      });
    return link;
  });
  const list = warden.list.bind(warden);

  listeners[0]?.lost();
  await until('the adoption is under way', () => lists.length === 1);
  warden.list = list;
  listeners[1]?.lost();
  // The attempt under way fails by itself; no second one goes on beside it.
  expect(listeners).toHaveLength(2);
  lists[0]?.();
  controller.heartbeats.length = 0;
  await until('a session is open again', () => controller.heartbeats.length > 0);

  // One at the start, one that was lost, one that stayed.
  expect(listeners).toHaveLength(3);
  expect(controller.session).toBe(2);
});
