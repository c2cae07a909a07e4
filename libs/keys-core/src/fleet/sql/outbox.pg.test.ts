import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { aDrone, anAction } from '../../testing/fleet-fixture.ts';
import { openKernel, type Kernel } from '../../testing/kernel-fixture.ts';
import { passingTime } from '../../testing/passing-time.ts';
import { acknowledgeAction, answerQuestion, askForLog, readOutboxes } from './outbox.ts';
import { openSession } from './drone-sessions.ts';

describe('questions to a drone', () => {
  const request = { backendId: 'b1', tail: 2 };
  const page = {
    backendId: 'b1',
    lines: [{ at: '2026-11-27T12:00:00.000Z', stream: 'stdout' as const, text: 'one' }],
    from: 0,
    position: 40,
    hasMore: false,
    isThere: true,
    hasEnded: false,
  };
  const signal = new AbortController().signal;

  async function questionOf(store: Kernel['store'], droneId: string) {
    return waitUntil(async () => (await readOutboxes(store.vital, [droneId]))[0]?.questions[0]);
  }

  test('are read with its outbox, and the answer of its newest session reaches the caller', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const other = await aDrone(store.general, { droneId: 'other' });

    const asked = askForLog(store, drone.droneId, request, signal);
    const { questionId, ...question } = await questionOf(store, drone.droneId);
    expect(question).toEqual({ request });
    const answer = { questionId, page };
    const late = answerQuestion(store, { ...drone, ...answer, session: drone.session - 1 });
    await expect(late).rejects.toMatchObject({ code: 'session.superseded' });
    expect(await answerQuestion(store, { ...other, ...answer })).toEqual({ isWanted: false });
    expect(await answerQuestion(store, { ...drone, ...answer })).toEqual({ isWanted: true });

    expect(await asked).toEqual(page);
    expect(await answerQuestion(store, { ...drone, ...answer })).toEqual({ isWanted: false });
    expect((await readOutboxes(store.vital, [drone.droneId]))[0]?.questions).toEqual([]);
  });

  test('about what is there are asked first, however many wait for what is written later', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);
    await store.general.$executeRaw`
      insert into drone_question (id, drone_id, request)
      select gen_random_uuid(), ${droneId}, '{"backendId": "b", "waitMs": 10000}' from generate_series(1, 100)`;
    const leaving = new AbortController();

    const asked = askForLog(store, droneId, { backendId: 'b' }, leaving.signal);
    const first = await waitUntil(async () => {
      const [outbox] = await readOutboxes(store.vital, [droneId]);
      return outbox?.questions.find((one) => one.request.waitMs === undefined);
    });

    expect(first.request).toEqual({ backendId: 'b' });
    leaving.abort();
    await expect(asked).rejects.toThrow();
  });

  test('that get no answer are given up, and are not asked any more', async () => {
    const time = await passingTime();
    const { store } = await openKernel({ databaseUrl: time.databaseUrl, clock: time.clock });
    const { droneId } = await aDrone(store.general);

    const asked = askForLog(store, droneId, request, signal);
    await Promise.all([
      expect(asked).rejects.toMatchObject({ code: 'backend.logs_unavailable', retryable: true }),
      questionOf(store, droneId).then(() => time.pass(6_000)),
    ]);

    expect((await readOutboxes(store.vital, [droneId]))[0]?.questions).toEqual([]);
  });

  test('end with their caller', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);
    const leaving = new AbortController();

    const asked = askForLog(store, droneId, request, leaving.signal);
    await Promise.all([
      expect(asked).rejects.toThrow(),
      questionOf(store, droneId).then(() => leaving.abort()),
    ]);

    expect((await readOutboxes(store.vital, [droneId]))[0]?.questions).toEqual([]);
  });
});

describe('outbox', () => {
  test('holds back later actions of a backend until the earlier one is acknowledged, and no others', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const spawnA = await anAction(store.general, { ...drone, backendId: 'a' });
    const terminateA = await anAction(store.general, {
      ...drone,
      backendId: 'a',
      kind: 'terminate',
    });
    const spawnB = await anAction(store.general, { ...drone, backendId: 'b' });

    const [before] = await readOutboxes(store.general, [drone.droneId]);
    await acknowledgeAction(store.general, { ...drone, actionId: spawnA });
    const [after] = await readOutboxes(store.general, [drone.droneId]);

    expect(before?.actions.map((action) => action.actionId)).toEqual([spawnA, spawnB]);
    expect(after?.actions.map((action) => action.actionId)).toEqual([terminateA, spawnB]);
    expect(after?.actions[0]).toMatchObject({ kind: 'terminate', backendId: 'a' });
  });

  test('what one read cannot hold is not lost: the rest follows as the first are acknowledged', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const BACKENDS = 600;
    await store.general.$queryRaw`
      insert into backend_action (backend_id, drone_id, kind, payload)
      select 'bk-' || n, ${drone.droneId}, 'terminate', '{}'::jsonb
      from generate_series(1, ${BACKENDS}::int) n order by n returning id`;

    const reads: string[][] = [];
    for (;;) {
      const [outbox] = await readOutboxes(store.general, [drone.droneId]);
      const actions = outbox?.actions ?? [];
      if (actions.length === 0) break;
      reads.push(actions.map(({ backendId }) => backendId));
      for (const { actionId } of actions) {
        await acknowledgeAction(store.general, { ...drone, actionId });
      }
    }

    expect(reads.length).toBeGreaterThan(1);
    expect(reads.flat()).toEqual(
      Array.from({ length: BACKENDS }, (_, index) => `bk-${String(index + 1)}`),
    );
  });

  test('returns every registered drone with its newest session, and no other', async () => {
    const { store } = await openKernel();
    const one = await aDrone(store.general);
    const two = await aDrone(store.general);
    await openSession(store.general, {
      droneId: two.droneId,
      clockId: two.clockId,
      datacenter: 'local',
      programs: [],
      version: 'x',
      capacity: 1,
    });

    const outboxes = await readOutboxes(store.general, [one.droneId, two.droneId, 'nobody']);

    expect(new Map(outboxes.map((outbox) => [outbox.droneId, outbox.session]))).toEqual(
      new Map([
        [one.droneId, 1],
        [two.droneId, 2],
      ]),
    );
  });

  test('an acknowledgement counts once, for its own drone, from the newest session', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const other = await aDrone(store.general);
    const actionId = await anAction(store.general, { ...drone, backendId: 'a' });

    expect(await acknowledgeAction(store.general, { ...other, actionId })).toEqual({
      acknowledged: false,
    });
    expect(await acknowledgeAction(store.general, { ...drone, actionId })).toEqual({
      acknowledged: true,
    });
    expect(await acknowledgeAction(store.general, { ...drone, actionId })).toEqual({
      acknowledged: false,
    });
    await expect(
      acknowledgeAction(store.general, { ...drone, session: drone.session + 1, actionId }),
    ).rejects.toMatchObject({ code: 'session.superseded' });
  });

  test('a cancelled action is not sent', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const actionId = await anAction(store.general, { ...drone, backendId: 'a' });
    await store.general.$queryRaw`
      update backend_action set cancelled_at = clock_timestamp() where id = ${actionId}::bigint returning id`;

    const [outbox] = await readOutboxes(store.general, [drone.droneId]);

    expect(outbox?.actions).toEqual([]);
  });
});
