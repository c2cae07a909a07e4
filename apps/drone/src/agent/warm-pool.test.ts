import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ProgramConfig } from '../config.ts';
import { AgentStage, room } from '../testing/agent-stage.ts';
import { SimulatedWarden } from '../testing/simulated-warden.ts';
import { until } from '../testing/wait.ts';
import type { BackendRun } from './backend-run.ts';
import type { Ports } from './ports.ts';
import { WarmPool } from './warm-pool.ts';
import { commandWork } from './work.ts';

const programs = { room: { ...room, warm: 1, allowEnv: ['MODE'], allowArgs: true } };

describe('an agent with warm processes', () => {
  let stage: AgentStage;
  let clock: AgentStage['clock'];
  let warden: AgentStage['warden'];
  let controller: AgentStage['controller'];

  beforeEach(() => {
    stage = new AgentStage();
    ({ clock, warden, controller } = stage);
  });
  afterEach(() => stage.close());

  async function startWarm(offered: Record<string, ProgramConfig> = programs, count = 1) {
    const agent = await stage.start(offered);
    await until('they are warm', () => warden.warmIds.size === count);
    return agent;
  }

  /** A file that a program would remove when it has taken its claim. */
  function untakenClaim(): string {
    const file = path.join(stage.stateDir, 'claim.json');
    writeFileSync(file, '{}');
    return file;
  }

  test('a spawn claims one, with all that its environment would have had, and neither namespace nor tag', async () => {
    await startWarm();
    const [warm] = warden.warmed;

    const key = { name: 'demo', namespace: 'hidden.space', tag: 'hidden-tag' };
    controller.send(controller.spawnAt(clock.nowMs(), { env: { MODE: 'dark' }, key }));
    await stage.untilReported('ready');

    expect(warm?.env).toMatchObject({ PORT: expect.stringMatching(/^\d+$/u) as string });
    expect(Object.keys(warm?.env ?? {}).filter((name) => name.startsWith('LEASEHOLD'))).toEqual([]);
    expect(warden.started).toHaveLength(1);
    const [started] = warden.started;
    expect(started).toMatchObject({ backendId: 'b1', claim: { warmId: warm?.warmId } });
    expect(started).toHaveProperty('claim.variables', {
      MODE: 'dark',
      LEASEHOLD_KEY: 'demo',
      LEASEHOLD_KEY_ID: expect.stringMatching(/^[0-9a-f]{64}$/u) as string,
      LEASEHOLD_FENCING_TOKEN: '17',
      LEASEHOLD_BACKEND_ID: 'b1',
    });
    expect(controller.reports.find(({ status }) => status === 'ready')?.address).toBe(
      `127.0.0.1:${String(warm?.env['PORT'])}`,
    );
  });

  test('claims nothing before the first renewal of its key was answered', async () => {
    await startWarm();
    const order: number[] = [];
    controller.answerRenewal = (input, leaseId) => {
      order.push(warden.started.length);
      return controller.renewed(input, leaseId);
    };

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    expect(order[0]).toBe(0);
    expect(warden.started[0]).toHaveProperty('claim');
  });

  test('two spawns at once claim two, and a third is started as any other', async () => {
    await startWarm({ room: { ...room, warm: 2 } }, 2);

    for (const backendId of ['b1', 'b2', 'b3']) {
      controller.send(controller.spawnAt(clock.nowMs(), { backendId, actionId: backendId }));
    }
    for (const backendId of ['b1', 'b2', 'b3']) await stage.untilReported('ready', backendId);

    const claims = warden.started.flatMap((one) => ('claim' in one ? [one.claim] : []));
    expect(new Set(claims.map(({ warmId }) => warmId)).size).toBe(2);
    const claimants = claims.map(({ variables }) => variables['LEASEHOLD_BACKEND_ID']);
    expect(claimants.toSorted()).toEqual(['b1', 'b2']);
    expect(warden.started.find(({ backendId }) => backendId === 'b3')).toHaveProperty('command');
  });

  test('a spawn with arguments is started without one', async () => {
    await startWarm();

    controller.send(controller.spawnAt(clock.nowMs(), { args: ['--own'] }));
    await stage.untilReported('ready');

    expect(warden.started[0]).toMatchObject({ args: ['--own'] });
    expect(warden.warmIds.size).toBe(1);
  });

  test('one that has ended unnoticed is not claimed: the backend is started with its own id', async () => {
    await startWarm();
    warden.endWarm(warden.warmed[0]?.warmId ?? '', false);

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    expect(warden.started).toHaveLength(1);
    expect(warden.started[0]).toMatchObject({ backendId: 'b1', args: [] });
  });

  test('a backend that is stopped before its key was renewed claims none, and the process is ended', async () => {
    await startWarm();
    controller.answerRenewal = () => new Error('no answer');

    controller.send(controller.spawnAt(clock.nowMs()));
    await until('its renewal is asked for', () => controller.renewals.length > 0);
    const [{ warmId } = { warmId: '' }] = warden.warmed;
    controller.send(stage.terminateOf('b1', '2'));
    await stage.untilReported('terminated');

    expect(warden.started).toEqual([]);
    await until('it is ended', () => !warden.warmIds.has(warmId));
  });

  test('a claimed one is not ready before it has removed its claim, and no other one is started meanwhile', async () => {
    warden.claimFile = untakenClaim();
    await startWarm();

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('waiting');
    await stage.untilSettled();
    expect(controller.statusesOf('b1')).not.toContain('ready');
    expect(warden.warmed).toHaveLength(1);
    rmSync(warden.claimFile);
    await stage.untilReported('ready');

    await until('another one is warm', () => warden.warmed.length === 2);
    expect(controller.statusesOf('b1').at(-1)).toBe('ready');
  });

  test('one that never takes its claim ends as one that did not start in time', async () => {
    warden.claimFile = untakenClaim();
    await startWarm({
      room: { ...room, warm: 1, readiness: { type: 'none', timeoutMs: 300, intervalMs: 20 } },
    });

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('terminated');

    expect(controller.statusesOf('b1')).not.toContain('ready');
    expect(controller.reports.at(-1)).toMatchObject({ reason: 'startup_timeout' });
  });

  test('the next agent goes on waiting for the claim that a backend has not taken', async () => {
    warden.claimFile = untakenClaim();
    const former = await startWarm();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('waiting');
    await former.leave();
    controller.heartbeats.length = 0;

    await stage.start(programs);
    await stage.untilSettled();
    expect(controller.statusesOf('b1')).not.toContain('ready');
    rmSync(warden.claimFile);

    await stage.untilReported('ready');
    expect(warden.started).toHaveLength(1);
  });

  test('a spawn that an agent has only written down is never carried out by the next one', async () => {
    await startWarm();
    controller.answerRenewal = () => new Error('no answer');
    controller.send(controller.spawnAt(clock.nowMs()));
    await until('its renewal is asked for', () => controller.renewals.length > 0);

    // As if the former had been killed: it does nothing more.
    await stage.start(programs);
    await stage.untilReported('terminated');

    expect(warden.started).toEqual([]);
    expect(controller.reports.at(-1)).toMatchObject({
      reason: 'internal',
      detail: 'the agent ended before it was started',
    });
  });

  test('a drone that is drained keeps none, and gets them again when it is resumed', async () => {
    await startWarm();

    controller.isDraining = true;
    await until('it is ended', () => warden.warmIds.size === 0);
    expect(warden.warmed).toHaveLength(1);
    controller.isDraining = false;

    await until('another one is warm', () => warden.warmIds.size === 1);
    expect(warden.warmed).toHaveLength(2);
  });

  test('an agent that stops ends them, and starts no more', async () => {
    const agent = await startWarm();

    await agent.stop();

    expect(warden.warmIds.size).toBe(0);
    expect(warden.warmed).toHaveLength(1);
  });

  test('heartbeats report how many there are of each program that should have some, and only of those', async () => {
    await startWarm({ room: { ...room, warm: 1 }, plain: room });

    await until('it is reported', () =>
      controller.heartbeats.some(({ load }) => load.warm?.[0]?.count === 1),
    );

    expect(controller.heartbeats.at(-1)?.load.warm).toEqual([
      { program: 'room', count: 1, wanted: 1, problem: null },
    ]);
  });
});

describe('a pool of warm processes', () => {
  /** A pool on a clock of the test, beside backends that the test only names. */
  function poolOf(of: { programs: Record<string, ProgramConfig>; capacity?: number }) {
    const time = { nowMs: 1_000 };
    const warden = new SimulatedWarden(() => time.nowMs);
    const runs: BackendRun[] = [];
    const taken = new Set<number>();
    const warnings: string[] = [];
    let lastId = 0;
    const ports: Pick<Ports, 'take' | 'adopt' | 'giveBack'> = {
      take: () => {
        const port = 31_000 + taken.size;
        taken.add(port);
        return Promise.resolve(port);
      },
      adopt: () => undefined,
      giveBack: (port) => void taken.delete(port),
    };
    const place = {
      user: null,
      cwd: '/',
      command: '/bin/true',
      refusal: undefined,
      problems: [],
      places: { hidden: [], blocked: [], reads: [], fixed: [] },
    };
    const pool = new WarmPool({
      config: { capacity: of.capacity ?? 10, programs: of.programs },
      warden: () => warden,
      nowMs: () => time.nowMs,
      random: () => 1,
      newId: () => `warm-${String((lastId += 1))}`,
      log: {
        debug: () => undefined,
        info: () => undefined,
        error: () => undefined,
        warn: (_fields, message) => void warnings.push(message),
      },
      ports: ports as Ports,
      workOf: (program) => {
        if (program.kind === 'container') throw new Error('the test has none');
        return commandWork(program, place, { inherited: {}, capacity: 10 });
      },
      runs: () => runs,
      lastOutput: () => Promise.resolve(undefined),
    });
    void warden.supply({
      changed: () => undefined,
      cooled: (end) => pool.cooled(end),
      superseded: () => undefined,
      lost: () => undefined,
    });
    /** Lets it start all that it would start now. */
    const fill = async (): Promise<void> => {
      for (let count = -1; count !== warden.warmed.length;) {
        count = warden.warmed.length;
        pool.tick(time.nowMs);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const run = (programName: string, isBecomingReady = false): void => {
      const identity = { programName };
      runs.push({ identity, isBecomingReady, begunAtMs: time.nowMs } as unknown as BackendRun);
    };
    return { pool, time, warden, taken, warnings, fill, run, runs };
  }

  const two = { ...room, warm: 2 };

  test('those that end by themselves are replaced after pauses that grow, and each is logged', async () => {
    const one = poolOf({ programs: { room: { ...room, warm: 1 } } });
    const pauses: number[] = [];

    for (let failure = 1; failure <= 10; failure += 1) {
      await one.fill();
      one.warden.endWarm(one.warden.warmed.at(-1)?.warmId ?? '');
      const endedAtMs = one.time.nowMs;
      const count = one.warden.warmed.length;
      while (one.warden.warmed.length === count) {
        one.time.nowMs += 100;
        await one.fill();
      }
      pauses.push(one.time.nowMs - endedAtMs);
    }

    expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
    expect(pauses[0]).toBeLessThanOrEqual(1_000);
    expect(pauses.at(-1)).toBeGreaterThanOrEqual(30_000);
    expect(pauses.at(-1)).toBeLessThanOrEqual(60_100);
    expect(one.warnings).toHaveLength(10);
    expect(one.warnings[0]).toContain('ended with exit code 1');
  });

  test('what keeps them from being warm is reported until they have been well for a while', async () => {
    const { pool, time, warden, fill } = poolOf({ programs: { room: { ...room, warm: 1 } } });
    await fill();
    warden.endWarm('warm-1');
    const problem = 'it ended with exit code 1';
    expect(pool.counts()).toEqual([{ program: 'room', count: 0, wanted: 1, problem }]);

    time.nowMs += 60_000;
    await fill();
    expect(pool.counts()).toEqual([{ program: 'room', count: 1, wanted: 1, problem }]);
    time.nowMs += 30_000;

    expect(pool.counts()).toEqual([{ program: 'room', count: 1, wanted: 1, problem: null }]);
    pool.pause(true);
    await until('it is ended', () => warden.warmIds.size === 0);
    expect(pool.counts()).toEqual([{ program: 'room', count: 0, wanted: 1, problem: null }]);
  });

  test('they give way to backends when the drone is full, and come back when there is room', async () => {
    const { pool, warden, fill, run, runs, taken } = poolOf({
      programs: { room: two },
      capacity: 3,
    });
    run('other');
    await fill();
    expect(warden.warmIds.size).toBe(2);

    run('other');
    pool.makeRoom();
    await fill();
    expect(warden.warmIds.size).toBe(1);
    expect(taken.size).toBe(1);
    runs.pop();
    await fill();

    expect(warden.warmIds.size).toBe(2);
  });

  test('the one that a backend claims does not give way', async () => {
    const { pool, warden, fill, run } = poolOf({ programs: { room: two }, capacity: 2 });
    await fill();
    const warm = pool.reserve({ program: 'room', args: [] });
    run('room');

    pool.makeRoom();
    run('room');
    pool.makeRoom();
    await fill();

    expect([...warden.warmIds]).toEqual([warm?.warmId]);
    expect(pool.reserve({ program: 'room', args: [] })).toBeUndefined();
  });

  test('there are never more of a program, backends included, than its instancesMax', async () => {
    const limited = { ...two, resources: { instancesMax: 2 } };
    const { pool, warden, fill, run } = poolOf({ programs: { room: limited } });
    await fill();
    expect(warden.warmIds.size).toBe(2);

    run('room');
    pool.makeRoom();
    await fill();

    expect(warden.warmIds.size).toBe(1);
  });

  test('none is started while a backend is about to be ready, unless that takes long', async () => {
    const { time, warden, fill, run } = poolOf({ programs: { room: { ...room, warm: 1 } } });
    run('room', true);
    await fill();
    expect(warden.warmed).toEqual([]);

    time.nowMs += 10_000;
    await fill();

    expect(warden.warmed).toHaveLength(1);
  });

  test('one whose claim the warden has refused is forgotten, and its port is free', async () => {
    const { pool, warden, fill, taken } = poolOf({ programs: { room: { ...room, warm: 1 } } });
    await fill();
    const warm = pool.reserve({ program: 'room', args: [] });
    warden.endWarm(warm?.warmId ?? '', false);

    warm?.discard();
    await fill();

    expect(warden.warmed).toHaveLength(2);
    expect(taken.size).toBe(1);
  });
});
