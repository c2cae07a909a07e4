import { LeaseError } from '@leasehold/keys-core';
import { TRPCClientError } from '@trpc/client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AgentStage, room } from '../testing/agent-stage.ts';
import { until } from '../testing/wait.ts';

let stage: AgentStage;
let clock: AgentStage['clock'];
let warden: AgentStage['warden'];
let controller: AgentStage['controller'];

beforeEach(() => {
  stage = new AgentStage();
  ({ clock, warden, controller } = stage);
});
afterEach(() => stage.close());

describe('spawn', () => {
  test('starts a program only after the first renewal was answered, on the deadlines of that answer', async () => {
    await stage.start();
    const order: string[] = [];
    controller.answerRenewal = (input, leaseId) => {
      order.push(`renewed with ${String(warden.started.length)} started`);
      return controller.renewed(input, leaseId);
    };

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    expect(order[0]).toBe('renewed with 0 started');
    expect(controller.statusesOf('b1')).toEqual(['loading', 'starting', 'waiting', 'ready']);
    const [renewal] = controller.renewals;
    expect(warden.started[0]?.hardAtMs).toBe(
      (renewal?.localTimeMs ?? 0) + controller.ladder.hardAfterMs,
    );
    expect(controller.acks).toEqual(['1']);
  });

  test('C50 starts nothing when the grant was revoked before the start, and reports the end', async () => {
    await stage.start();
    controller.answerRenewal = (_input, leaseId) => ({
      leaseId,
      outcome: 'refused',
      reason: 'revoked',
    });

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('terminated');

    expect(warden.started).toEqual([]);
    expect(controller.reports.at(-1)).toMatchObject({ status: 'terminated', reason: 'revoked' });
  });

  test('C49 a late duplicate for a living backend is only acknowledged', async () => {
    await stage.start();
    const action = controller.spawnAt(clock.nowMs());
    controller.send(action);
    await stage.untilReported('ready');

    controller.send({ ...action, actionId: '2', deadlines: controller.spawnAt(0).deadlines });
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toHaveLength(1);
    expect(controller.statusesOf('b1')).not.toContain('terminated');
  });

  test('C49 a duplicate after the backend ended and the agent was restarted starts nothing', async () => {
    const former = await stage.start();
    const action = controller.spawnAt(clock.nowMs());
    controller.send(action);
    await stage.untilReported('ready');
    warden.exit('b1', 0);
    await stage.untilReported('terminated');
    await former.leave();
    controller.heartbeats.length = 0;
    await stage.start();

    controller.send({ ...action, actionId: '2', session: controller.session });
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toHaveLength(1);
  });

  test('C47 deadlines of another clock are refused: another clock id, or too far ahead', async () => {
    await stage.start();

    controller.send(
      controller.spawnAt(clock.nowMs(), {
        backendId: 'b1',
        clockId: '00000000-0000-4000-8000-000000000000',
      }),
    );
    controller.send(
      controller.spawnAt(clock.nowMs() + 864_000_000, { backendId: 'b2', actionId: '2' }),
    );
    await stage.untilReported('terminated', 'b1');
    await stage.untilReported('terminated', 'b2');

    expect(controller.reports.map(({ refused }) => refused)).toEqual([true, true]);
    expect(warden.started).toEqual([]);
  });

  test('a program or arguments that the drone does not offer or allow are refused with a reason', async () => {
    await stage.start();

    controller.send(controller.spawnAt(clock.nowMs(), { backendId: 'b1', program: 'other' }));
    controller.send(
      controller.spawnAt(clock.nowMs(), { backendId: 'b2', actionId: '2', args: ['--root'] }),
    );
    await stage.untilReported('terminated', 'b1');
    await stage.untilReported('terminated', 'b2');

    expect(controller.reports.map(({ detail }) => detail)).toEqual([
      'the drone does not offer the program',
      'the program takes no arguments',
    ]);
  });

  test('an action of an older session is dropped', async () => {
    await stage.start();

    controller.send(controller.spawnAt(clock.nowMs(), { session: controller.session - 1 }));
    await stage.untilSettled();

    expect(controller.statusesOf('b1')).toEqual([]);
    expect(controller.acks).toEqual(['999']);
  });
});

describe('terminate', () => {
  test('of an unknown backend makes sure that it is never started', async () => {
    await stage.start();
    const late = controller.spawnAt(clock.nowMs(), { actionId: '2' });

    controller.send(stage.terminateOf('b1', '1'));
    await stage.untilReported('terminated');
    controller.send(late);
    await until('the spawn is acknowledged', () => controller.acks.includes('2'));

    expect(warden.started).toEqual([]);
    expect(controller.reports.at(-1)).toMatchObject({ status: 'terminated', refused: true });
  });

  test('of a backend that is being launched is acknowledged when the warden has received it', async () => {
    await stage.start();
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
    await stage.untilReported('starting');

    controller.send(stage.terminateOf('b1', '2'));
    await stage.untilSettled();
    expect(controller.acks).not.toContain('2');
    finish();
    await until('it is acknowledged', () => controller.acks.includes('2'));

    expect(warden.stops.at(-1)).toMatchObject({ backendId: 'b1', reason: 'external' });
  });

  test('of a backend that could not be adopted: its end is reported when the warden has seen it', async () => {
    const former = await stage.start();
    warden.ignoresStops = true;
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    await former.leave();
    controller.heartbeats.length = 0;
    await stage.start({});

    controller.send(stage.terminateOf('b1', '2'));
    await until('it is acknowledged', () => controller.acks.includes('2'));
    await stage.untilSettled();

    expect(controller.statusesOf('b1')).not.toContain('terminated');
    expect(warden.stops.at(-2)).toMatchObject({ backendId: 'b1', reason: 'external' });
    warden.exit('b1', 0);
    await stage.untilReported('terminated');
    expect(controller.reports.at(-1)).toMatchObject({ reason: 'external', exitCode: 0 });
  });

  test('of a backend that could not be adopted, and had ended before: it is reported with its own end', async () => {
    const former = await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    await former.leave();
    warden.exit('b1', 3);

    await stage.start({});
    await stage.untilReported('terminated');

    expect(controller.reports.at(-1)).toMatchObject({ reason: 'exited', exitCode: 3 });
  });
});

describe('renewal', () => {
  test('goes on until the report of the end is answered, and then stops', async () => {
    await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    controller.answerReport = ({ status }) =>
      status === 'terminated' ? new Error('lost') : 'recorded';
    warden.exit('b1', 0);
    await stage.untilReported('terminated');
    const before = controller.renewals.length;

    stage.hurry();
    await until('its key is renewed once more', () => controller.renewals.length > before);
    controller.answerReport = () => 'recorded';
    await until('its record is dropped', async () => (await warden.list()).length === 0);

    expect(
      controller.reports.filter(({ status }) => status === 'terminated').length,
    ).toBeGreaterThan(1);
  });

  test('is requested for a new backend without a question to the warden, which does not have it yet', async () => {
    await stage.start();
    const alive = warden.alive.bind(warden);
    warden.alive = () => new Promise(() => undefined);

    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    expect(controller.renewals).toHaveLength(1);
    // The agent asks when it leaves.
    warden.alive = alive;
  });

  test('is not requested for a backend that the warden does not report as alive', async () => {
    await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');
    const before = controller.renewals.length;

    await warden.shutdown(); // it has lost the backend and told nobody
    stage.hurry();
    await until('the agent stops it at its soft deadline', () => warden.stops.length > 0);

    expect(controller.renewals).toHaveLength(before);
    expect(warden.stops[0]).toMatchObject({ mode: 'soft', reason: 'key_expired', isKeyLost: true });
  });

  test('that is refused stops the backend at once, and tells the warden that the key is lost', async () => {
    await stage.start();
    controller.send(controller.spawnAt(clock.nowMs()));
    await stage.untilReported('ready');

    controller.answerRenewal = (_input, leaseId) => ({
      leaseId,
      outcome: 'refused',
      reason: 'renewal_blocked',
    });
    stage.hurry();
    await stage.untilReported('terminated');

    expect(warden.stops[0]).toMatchObject({
      mode: 'soft',
      reason: 'renewal_refused',
      isKeyLost: true,
    });
    expect(controller.reports.at(-1)).toMatchObject({ reason: 'renewal_refused', exitCode: 0 });
  });
});

test('a report that is answered `kill` stops the backend hard', async () => {
  await stage.start();
  controller.answerReport = ({ status }) => (status === 'ready' ? 'kill' : 'recorded');

  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('terminated');

  expect(warden.stops[0]).toMatchObject({ mode: 'hard' });
});

test('an address that the token of the drone does not allow ends the backend as a failure, and is the reason', async () => {
  await stage.start();
  controller.answerReport = ({ status }) => (status === 'ready' ? 'not_allowed' : 'recorded');

  controller.send(controller.spawnAt(clock.nowMs()));
  await stage.untilReported('terminated');

  expect(warden.stops[0]).toMatchObject({ mode: 'hard', reason: 'internal', isKeyLost: false });
  expect(controller.reports.at(-1)).toMatchObject({
    reason: 'internal',
    detail: "the token of this drone does not allow the backend's address",
  });
});

describe('what a controller refuses to store', () => {
  const refusal = (): Error =>
    new TRPCClientError('text', { cause: new LeaseError('request.invalid') });

  test('the end of a backend is reported without its texts, so that its key is free', async () => {
    await stage.start();
    controller.answerReport = ({ detail }) => (detail === undefined ? 'recorded' : refusal());

    controller.send(controller.spawnAt(clock.nowMs(), { program: 'unknown' }));
    await until('its end is recorded', () => {
      const last = controller.reports.at(-1);
      return last !== undefined && last.detail === undefined;
    });

    const [told, plain, ...more] = controller.reports;
    expect(told?.detail).toEqual(expect.any(String));
    expect(more).toEqual([]);
    expect({ ...plain, detail: told?.detail }).toEqual(told);
  });

  test('a heartbeat is sent without what it tells of others, so that the drone stays reachable', async () => {
    controller.answerHeartbeat = () =>
      controller.heartbeats.at(-1)?.load.warm === undefined
        ? Promise.resolve()
        : Promise.reject(refusal());

    await stage.start({ room: { ...room, warm: 1 } });
    await until('one is answered', () => controller.heartbeats.length > 1);

    const [told, alone] = controller.heartbeats;
    expect(told?.load.warm).toMatchObject([{ program: 'room' }]);
    expect(alone).toEqual({ ...told, load: { backends: 0 } });
  });
});
