import { existsSync, mkdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { programSchema } from '@leasehold/api/drone-file';
import { LeaseError } from '@leasehold/keys-core';
import { TRPCClientError } from '@trpc/client';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ContainerConfig } from '../config.ts';
import { AgentStage, room } from '../testing/agent-stage.ts';
import { NOT_ISOLATED } from '../testing/simulated-warden.ts';
import { until } from '../testing/wait.ts';
import { logFileOf, logFolderOf } from '../warden/output-log.ts';
import { SessionSuperseded } from './controller-link.ts';
import { WardenLost, type WardenListener } from './warden-link.ts';
import type { BackendNotes } from './work.ts';

let stage: AgentStage;
let clock: AgentStage['clock'];
let warden: AgentStage['warden'];
let controller: AgentStage['controller'];

beforeEach(() => {
  stage = new AgentStage();
  ({ clock, warden, controller } = stage);
});
afterEach(() => stage.close());

/** For the timers that an agent sets itself: they wait for the test. */
function stopTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
}

describe('a warden that runs already', () => {
  test('H-warden-hello is not commanded by an agent whose session no controller has accepted', async () => {
    const healthy = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    controller.isAccepting = false;
    const sessions = controller.session;

    const other = stage.create();
    void other.start();
    await until('the other one asks for a session', () => controller.session > sessions);

    expect(warden.commandCount).toBe(1);
    await other.stop();
    expect(await warden.alive()).toEqual(['b1']);
    await healthy.leave();
  });

  test('H-warden-hello keeps the memory of its agent, which the next one reads when it takes over', async () => {
    const memory = path.join(stage.stateDir, 'backends.jsonl');
    const former = await stage.start();
    const before = statSync(memory).ino;
    const next = stage.create();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    const between = statSync(memory).ino;
    await former.leave();
    // As if it had not been started yet.
    await warden.forget('b1');

    await next.start();
    await stage.untilReported('terminated');

    expect(between).toBe(before);
    expect(controller.reports.at(-1)).toMatchObject({
      backendId: 'b1',
      detail: 'the agent ended before it was started',
    });
  });

  test('and does not answer is ended only once a controller has accepted the agent', async () => {
    const asked: (() => Promise<boolean>)[] = [];
    controller.isAccepting = false;
    const agent = stage.create({ room }, (_listener, { mayEndSilent }) => {
      asked.push(() => mayEndSilent(warden.identity.clockId));
      return new Promise(() => undefined);
    });
    void agent.start();
    let answer: boolean | undefined;
    void asked[0]?.().then((may) => {
      answer = may;
    });
    await until('a session is asked for', () => controller.session === 1);
    expect(answer).toBeUndefined();

    controller.accept();

    await until('it may be ended', () => answer === true);
  });
});

test('a session that another agent takes is opened again; if it is taken three times within a minute, the agent ends', async () => {
  const agent = await stage.start();
  stopTimers();

  for (const next of [2, 3]) {
    controller.end(new SessionSuperseded('a newer session of this drone exists'));
    // So long is the pause before it is opened again.
    await vi.advanceTimersByTimeAsync(500);
    expect(controller.session).toBe(next);
  }
  controller.end(new SessionSuperseded('a newer session of this drone exists'));

  expect(await agent.ended).toBe('replaced');
  expect(controller.session).toBe(3);
});

test('a session that was taken is opened again, also where a heartbeat without what it tells has found that', async () => {
  controller.answerHeartbeat = () =>
    Promise.reject(
      controller.heartbeats.at(-1)?.load.warm === undefined
        ? new SessionSuperseded('a newer session of this drone exists')
        : new TRPCClientError('text', { cause: new LeaseError('request.invalid') }),
    );

  stopTimers();
  await stage.start({ room: { ...room, warm: 1 } });
  // For so long the answer may mean that a session of its own is on its way.
  await vi.advanceTimersByTimeAsync(3_000);

  expect(controller.session).toBe(2);
});

test('a report of a backend whose warden is gone is not sent in the session of the next one', async () => {
  const listeners: WardenListener[] = [];
  await stage.start({ room }, (listener) => {
    listeners.push(listener);
    return warden.supply(listener);
  });
  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('ready');
  controller.send(stage.terminateOf('b1', '2'));
  controller.end(new Error('the connection is lost'));
  await until('it has ended, whose report waits for a session', () => warden.stops.length > 0);

  listeners[0]?.lost();
  await stage.untilReported('terminated');
  await stage.untilSettled();

  // Once, by the run that was adopted.
  expect(controller.statusesOf('b1').filter((status) => status === 'terminated')).toHaveLength(1);
});

test('a drone does not start on a machine that isolates less than its configuration requires', async () => {
  const agent = stage.create({ room }, undefined, 'namespaces');

  await expect(agent.start()).rejects.toThrow(/requires isolation "namespaces".*simulated/u);

  expect(controller.session).toBe(0);
  expect(warden.commandCount).toBe(0);
});

describe('what is reported about a drone', () => {
  test('a session reports what the machine has to keep programs from the drone', async () => {
    await stage.start();

    expect(controller.sessionInput?.isolation).toEqual(NOT_ISOLATED);
  });

  test('the log at the start of a drone has what the machine does not isolate', async () => {
    await stage.start();

    expect(stage.warnings).toContain(`isolation of programs: ${NOT_ISOLATED.detail}`);
  });

  test('what keeps a program from running is known at the start, and said of a crash before it is ready', async () => {
    const missing = 'the folder /nowhere/app does not exist';
    const readiness = { type: 'tcp', timeoutMs: 300_000, intervalMs: 100 } as const;
    const agent = await stage.start({ room: { ...room, cwd: '/nowhere/app', readiness } });
    expect(agent.programProblems).toEqual([`program room: ${missing}`]);

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('waiting');
    stage.warden.exit('b1', 1);
    await stage.untilReported('terminated');

    expect(controller.reports.at(-1)).toMatchObject({ exitCode: 1, detail: missing });
  });

  test('each heartbeat reports the round trip of the one before, and none if that got no answer', async () => {
    let beats = 0;
    controller.answerHeartbeat = async () => {
      beats += 1;
      if (beats === 2) throw new Error('no answer');
      await new Promise((resolve) => setTimeout(resolve, 20));
    };
    controller.heartbeatMs = 100;
    await stage.start();

    await until('four heartbeats were sent', () => controller.heartbeats.length >= 4);

    const [first, second, third, fourth] = controller.heartbeats.map(
      ({ load }) => load.roundTripMs,
    );
    expect([first, third]).toEqual([undefined, undefined]);
    expect(second).toBeGreaterThanOrEqual(15);
    expect(fourth).toBeGreaterThanOrEqual(15);
  });

  test('a session reports the times of programs', async () => {
    await stage.start({ room: { ...room, idleStopSeconds: 60, lifetimeLimitSeconds: 600 } });

    expect(controller.sessionInput?.programs).toMatchObject([
      { idleStopSeconds: 60, lifetimeLimitSeconds: 600 },
    ]);
  });

  test('a program lives no longer than its own limit, also where a controller knows of none', async () => {
    await stage.start({ room: { ...room, lifetimeLimitSeconds: 1 } });
    const sentAtMs = clock.nowMs();
    let endedAtMs = 0;
    controller.answerReport = ({ status }) => {
      if (status === 'terminated') endedAtMs = clock.nowMs();
      return 'recorded';
    };
    controller.send(controller.spawnAt(sentAtMs));
    stage.hurry();
    await stage.untilReported('terminated');

    expect(controller.reports.at(-1)).toMatchObject({ reason: 'lifetime' });
    expect(endedAtMs - sentAtMs).toBeGreaterThanOrEqual(1_000);
  });

  test('a session reports where the output of backends is', async () => {
    await stage.start();

    expect(controller.sessionInput?.logFolder).toBe(path.join(stage.stateDir, 'logs'));
  });
});

describe('an agent that is told to stop', () => {
  test('says goodbye before its backends have ended, and goes on with its session for their reports', async () => {
    const agent = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    const said: string[][] = [];
    controller.answerGoodbye = () => {
      said.push(controller.statusesOf('b1'));
      return Promise.resolve();
    };

    await agent.stop();

    expect(said).toHaveLength(1);
    expect(said[0]).not.toContain('terminated');
    expect(controller.statusesOf('b1')).toContain('terminated');
    expect(await agent.ended).toBe('stopped');
  });

  test('says it again in the session that follows, and where it got no answer', async () => {
    warden.ignoresStops = true;
    const agent = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    controller.answerGoodbye = () => Promise.reject(new Error('no answer'));

    const stopped = agent.stop();
    await until('it is said', () => controller.goodbyes.includes(1));
    controller.answerGoodbye = () => Promise.resolve();
    controller.session += 1;
    controller.accept();
    await until('it is said in the next session', () => controller.goodbyes.includes(2));
    warden.exit('b1', 0);
    await stopped;

    expect(controller.statusesOf('b1')).toContain('terminated');
  });

  test('ends soon when no controller answers its goodbye', async () => {
    const agent = await stage.start();
    controller.answerGoodbye = () => new Promise(() => undefined);

    await agent.stop();

    expect(await agent.ended).toBe('stopped');
  });
});

describe('an agent that leaves', () => {
  test('says no goodbye: its backends go on, and the drone with them', async () => {
    const agent = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    await agent.leave();

    expect(controller.goodbyes).toEqual([]);
    expect(await agent.ended).toBe('left');
    expect(await warden.alive()).toEqual(['b1']);
  });

  test('renews the keys of its backends first, so that the next agent has the time up to soft', async () => {
    const agent = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    await agent.leave();

    const renewal = controller.renewals.at(-1);
    expect(controller.renewals).toHaveLength(2);
    expect((await warden.list())[0]).toMatchObject({
      state: 'running',
      softAtMs: (renewal?.localTimeMs ?? 0) + controller.ladder.softAfterMs,
      hardAtMs: (renewal?.localTimeMs ?? 0) + controller.ladder.hardAfterMs,
    });
  });

  test('first completes the launch that is under way, and leaves later actions to the next agent', async () => {
    const agent = await stage.start();
    const start = warden.start.bind(warden);
    let finish: () => void = () => undefined;
    warden.start = async (request) => {
      await new Promise<void>((resolve) => (finish = resolve));
      return start(request);
    };
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('starting');

    const left = agent.leave();
    controller.send(stage.terminateOf('b1', '2'));
    finish();
    await left;

    expect(await warden.alive()).toEqual(['b1']);
    expect(controller.acks).toEqual(['1']);
  });

  test('and gets no answer to its renewals ends within the time from renew to soft', async () => {
    controller.ladder = { ...controller.ladder, renewAfterMs: 3_900 };
    const agent = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    controller.renew = () => new Promise(() => undefined);
    const { softAfterMs, renewAfterMs } = controller.ladder;
    // A process that is late is late with both.
    const late = pause(softAfterMs - renewAfterMs + 500, 'late');

    const first = await Promise.race([agent.leave().then(() => 'left'), late]);

    expect(first).toBe('left');
    expect(await warden.alive()).toEqual(['b1']);
  });
});

test('F4b the next agent adopts running backends with their ports, and reports those that have ended', async () => {
  const former = await stage.start();
  controller.send(controller.spawnAt(clock.nowMs(), { backendId: 'b1' }));
  controller.send(
    controller.spawnAt(clock.nowMs(), {
      backendId: 'b2',
      actionId: '2',
      leaseId: '6f1dd2cc-0b3a-4b0e-9a2c-0d6d8b0b7f02',
    }),
  );
  await stage.untilReported('ready', 'b1');
  await stage.untilReported('ready', 'b2');
  await former.leave();
  warden.exit('b2', 9);
  controller.reports.length = 0;
  controller.heartbeats.length = 0;

  await stage.start();
  await stage.untilReported('terminated', 'b2');

  expect(controller.statusesOf('b1')).toEqual(['ready']);
  expect(controller.reports.find(({ backendId }) => backendId === 'b1')?.address).toMatch(
    /^127\.0\.0\.1:31\d{3}$/u,
  );
  expect(controller.statusesOf('b2')).toEqual(['terminated']);
  expect(warden.started).toHaveLength(2);
});

test('F4b a backend is probed as what it was started, although its program is a container by now', async () => {
  const readiness = { type: 'tcp', timeoutMs: 300_000, intervalMs: 20 } as const;
  const former = await stage.start({ room: { ...room, readiness } });
  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('waiting');
  await former.leave();
  const list = warden.list.bind(warden);
  warden.list = async () => (await list()).map((snapshot) => ({ ...snapshot, pid: process.pid }));
  const { port } = warden.started[0]?.meta as BackendNotes;
  const server = net.createServer().listen(port, '127.0.0.1');
  onTestFinished(() => void server.close());
  const fields = { image: 'room:1', containerPort: 1, readiness };
  const container = programSchema.parse(fields) as ContainerConfig;

  await stage.start({ room: container });
  await stage.untilReported('ready');

  expect(controller.statusesOf('b1')).not.toContain('terminated');
});

test('a backend is reported as one that outlived its key by when it was gone, however late that is reported', async () => {
  const former = await stage.start();
  const leaseIds = ['6f1dd2cc-0b3a-4b0e-9a2c-0d6d8b0b7f01', '6f1dd2cc-0b3a-4b0e-9a2c-0d6d8b0b7f02'];
  for (const [nth, leaseId] of leaseIds.entries()) {
    const backendId = `b${String(nth)}`;
    controller.send(controller.spawnAt(clock.nowMs(), { backendId, actionId: backendId, leaseId }));
    await stage.untilReported('ready', backendId);
  }
  await former.leave();
  const { ttlMs, softAfterMs } = controller.ladder;
  const list = warden.list.bind(warden);
  warden.list = async () =>
    (await list()).map((snapshot, nth) => ({
      ...snapshot,
      state: 'gone',
      goneAtMs: snapshot.softAtMs + ttlMs - softAfterMs + nth,
    }));

  await stage.start();
  await stage.untilReported('terminated', 'b0');
  await stage.untilReported('terminated', 'b1');

  const ends = controller.reports.filter(({ status }) => status === 'terminated');
  expect(ends.map(({ backendId, hasOutlivedKey }) => [backendId, hasOutlivedKey])).toEqual([
    ['b0', undefined],
    ['b1', true],
  ]);
});

test('F4b the next agent removes old output of backends that have ended, and none of those that it adopts', async () => {
  const former = await stage.start();
  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('ready');
  await former.leave();
  const folder = logFolderOf(stage.stateDir);
  mkdirSync(folder, { recursive: true });
  const [kept, old] = ['b1', 'b0'].map((backendId, nth) => {
    const file = logFileOf(folder, backendId, 0);
    writeFileSync(file, '');
    utimesSync(file, 1_000 - nth, 1_000 - nth);
    return file;
  }) as [string, string];

  await stage.start();
  await until('old output is removed', () => !existsSync(old));

  expect(existsSync(kept)).toBe(true);
});

test('old output is removed after every hundred ends: a program that crashes at once fills no disk', async () => {
  const listeners: WardenListener[] = [];
  await stage.start({ room }, (listener) => {
    listeners.push(listener);
    return warden.supply(listener);
  });
  const folder = logFolderOf(stage.stateDir);
  mkdirSync(folder, { recursive: true });
  const old = logFileOf(folder, 'b0', 0);
  writeFileSync(old, '');
  utimesSync(old, 1_000, 1_000);
  const ended = {
    leaseId: '',
    pid: 1,
    state: 'gone',
    softAtMs: 0,
    hardAtMs: 0,
    stopReason: null,
    isKilled: false,
    exitCode: 1,
    goneAtMs: 1,
    detail: null,
    meta: null,
  } as const;

  for (let nth = 1; nth <= 100; nth += 1) {
    listeners[0]?.changed({ ...ended, backendId: `b${String(nth)}` });
  }

  await until('old output is removed', () => !existsSync(old));
  expect(controller.reports).toHaveLength(100);
});

test('what a backend prints is not said to be all while the next agent takes over', async () => {
  const former = await stage.start();
  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('ready');
  await former.leave();
  const list = warden.list.bind(warden);
  let answer: () => void = () => undefined;
  let isAsked = false;
  warden.list = async () => {
    isAsked = true;
    await new Promise<void>((resolve) => (answer = resolve));
    return list();
  };

  const started = stage.create().start();
  await until('the warden is asked what runs', () => isAsked);
  const { session } = controller;
  controller.send({ kind: 'read_log', session, questionId: 'q1', request: { backendId: 'b1' } });
  await until('the question is answered', () => controller.answers.length > 0);
  answer();
  await started;

  expect(controller.answers).toMatchObject([{ questionId: 'q1', page: { hasEnded: false } }]);
});

test('a backend that ends while the next agent takes over is reported with its own end', async () => {
  const former = await stage.start();
  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('ready');
  await former.leave();
  controller.reports.length = 0;
  controller.heartbeats.length = 0;
  const list = warden.list.bind(warden);
  warden.list = async () => {
    const snapshots = await list();
    warden.exit('b1', 0);
    return snapshots;
  };

  await stage.start();
  await stage.untilReported('terminated');

  expect(controller.reports.filter(({ status }) => status === 'terminated')).toMatchObject([
    { reason: 'exited', exitCode: 0 },
  ]);
});

test('a warden that is lost again during its adoption is recovered, by one attempt at a time', async () => {
  const listeners: WardenListener[] = [];
  const lists: (() => void)[] = [];
  await stage.start({ room }, async (listener) => {
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
  // The attempt under way fails by itself; no second one runs beside it.
  expect(listeners).toHaveLength(2);
  lists[0]?.();
  controller.heartbeats.length = 0;
  await until('a session is open again', () => controller.heartbeats.length > 0);

  // One at the start, one that was lost, one that stayed.
  expect(listeners).toHaveLength(3);
  expect(controller.session).toBe(3);
});
