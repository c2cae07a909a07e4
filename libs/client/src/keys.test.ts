import { describe, expect, test } from 'vitest';
import { ManualClock, settled } from './double/index.ts';
import { createBackends, createKeys, type BackendState, type ConnectRequest } from './keys.ts';
import type { Ending } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import { LeaseholdCallError, OutcomeUnknownError } from './transport/errors.ts';

const reachability = { explain: <T>(call: () => Promise<T>) => call(), isHopeless: () => false };

/** A controller that does not answer, until a call of it is cut off by the test. */
function setUp(answerMs: number) {
  const clock = new ManualClock();
  const sent: {
    readonly key: unknown;
    readonly waitMs: number | undefined;
    readonly cutOff: () => void;
  }[] = [];
  const mutate = ({ idempotencyKey, waitMs }: ConnectRequest, _ending: Ending): Promise<never> =>
    new Promise((_resolve, reject) => {
      const cutOff = (): void => reject(new OutcomeUnknownError());
      sent.push({ key: idempotencyKey, waitMs, cutOff });
    });
  let idsCount = 0;
  const keys = createKeys({
    api: { keys: { connect: { mutate } } } as unknown as ControllerApi,
    machine: { clock, uuid: () => `id-${String((idsCount += 1))}`, random: () => 0.5 },
    answerMs,
    reachability,
    closing: new AbortController().signal,
  });
  return { clock, sent, keys };
}

/** How long a call that nobody answers waits. Milliseconds. */
async function patienceOf(request: ConnectRequest, answerMs: number): Promise<number> {
  const { clock, keys } = setUp(answerMs);
  const beganAtMs = clock.nowMs();
  const over = keys.connect(request).then(
    () => undefined,
    () => clock.nowMs(),
  );
  await clock.advance(200_000);
  return ((await over) ?? Infinity) - beganAtMs;
}

describe('connect', () => {
  test.each<[string, ConnectRequest, number]>([
    ['the wait and the answer', { waitMs: 1_000 }, 1_500],
    ['also for readiness', { waitMs: 1_000, waitFor: 'ready' }, 121_500],
  ])('waits as long as the controller may: %s', async (_what, request, patienceMs) => {
    expect(await patienceOf({ key: { name: 'room' }, ...request }, 500)).toBe(patienceMs);
  });

  test('a call that was cut off while the backend starts is sent again with the same key', async () => {
    const { clock, sent, keys } = setUp(500);
    const call = keys.connect({ key: { name: 'room' }, waitMs: 20_000, waitFor: 'ready' });
    call.catch(() => undefined);
    await clock.advance(130_000);

    sent[0]?.cutOff();
    await settled();
    await clock.advance(1_000);

    expect(sent.map(({ key }) => key)).toEqual(['id-1', 'id-1']);
    await clock.advance(200_000);
    await expect(call).rejects.toBeInstanceOf(OutcomeUnknownError);
  });
});

describe('a connect that is sent again', () => {
  /** What its calls may wait, if the first is cut off after so long. Milliseconds. */
  async function waitsOf(request: ConnectRequest, cutOffAfterMs: number) {
    const { clock, sent, keys } = setUp(10_000);
    const beganAtMs = clock.nowMs();
    const over = keys.connect(request).then(
      () => undefined,
      () => clock.nowMs() - beganAtMs,
    );
    await clock.advance(cutOffAfterMs);
    sent[0]?.cutOff();
    await clock.advance(200_000);
    return { waits: sent.map(({ waitMs }) => waitMs), tookMs: await over };
  }

  test('waits for what is left of its time, and is over when that and the answer are', async () => {
    const { waits, tookMs } = await waitsOf({ key: { name: 'room' }, waitMs: 60_000 }, 59_000);

    expect(waits[0]).toBe(60_000);
    expect(waits[1]).toBeGreaterThan(0);
    expect(waits[1]).toBeLessThan(1_000);
    expect(tookMs).toBeLessThanOrEqual(70_050);
  });

  test('does not wait any more when its time is over, also that by default', async () => {
    const { waits } = await waitsOf({ key: { name: 'room' } }, 15_000);

    expect(waits).toEqual([10_000, 0]);
  });
});

interface WatchListener {
  readonly onData: (state: Pick<BackendState, 'id' | 'status'>) => void;
  readonly onError: (error: unknown) => void;
  readonly onComplete: () => void;
}

/** A watch of a backend, and what the test tells it as its controller. */
async function setUpWatch() {
  const clock = new ManualClock();
  const subscriptions: WatchListener[] = [];
  let openCount = 0;
  const subscribe = (_input: unknown, listener: WatchListener) => {
    subscriptions.push(listener);
    openCount += 1;
    let isOpen = true;
    return {
      unsubscribe() {
        if (isOpen) openCount -= 1;
        isOpen = false;
      },
    };
  };
  const backends = createBackends({
    api: { backends: { watch: { subscribe } } } as unknown as ControllerApi,
    machine: { clock, uuid: () => 'id', random: () => 0.5 },
    reachability,
    closing: new AbortController().signal,
    transport: 'ws',
  });
  const seen: string[] = [];
  const watched = (async () => {
    for await (const { status } of backends.watch('b-1')) seen.push(status);
    return seen;
  })();
  watched.catch(() => undefined);
  await settled();
  return { clock, subscriptions, watched, openCount: () => openCount };
}

const SCHEDULED = { id: '1', status: 'scheduled' } as const;
const TERMINATED = { id: '2', status: 'terminated' } as const;

describe('a watch of a backend', () => {
  test.each<[string, (listener: WatchListener) => void]>([
    [
      'an error that passes by itself',
      ({ onError }) => onError(new LeaseholdCallError('store.unavailable')),
    ],
    ['an end before the backend has terminated', ({ onComplete }) => onComplete()],
  ])('goes on after %s, and tells each state once', async (_what, interrupt) => {
    const { clock, subscriptions, watched, openCount } = await setUpWatch();
    subscriptions[0]?.onData(SCHEDULED);
    for (const place of [0, 1]) {
      const listener = subscriptions[place];
      if (listener !== undefined) interrupt(listener);
      await clock.advance(5_000);
    }
    for (const state of [SCHEDULED, TERMINATED]) subscriptions[2]?.onData(state);
    subscriptions[2]?.onComplete();

    expect(await watched).toEqual(['scheduled', 'terminated']);
    expect(openCount()).toBe(0);
    expect(clock.waitingCount).toBe(0);
  });

  test('fails with an error that does not pass', async () => {
    const { clock, subscriptions, watched, openCount } = await setUpWatch();

    subscriptions[0]?.onError(new LeaseholdCallError('backend.not_found'));

    await expect(watched).rejects.toMatchObject({ code: 'backend.not_found' });
    expect([subscriptions.length, openCount(), clock.waitingCount]).toEqual([1, 0, 0]);
  });
});
