import { describe, expect, test } from 'vitest';
import { ManualClock, settled } from './double/index.ts';
import { createKeys, type ConnectRequest } from './keys.ts';
import type { Ending } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import { OutcomeUnknownError } from './transport/errors.ts';

const reachability = { explain: <T>(call: () => Promise<T>) => call(), isHopeless: () => false };

/** A controller that does not answer, until a call of it is cut off by the test. */
function setUp(answerMs: number) {
  const clock = new ManualClock();
  const sent: { readonly key: unknown; readonly cutOff: () => void }[] = [];
  const mutate = ({ idempotencyKey }: ConnectRequest, _ending: Ending): Promise<never> =>
    new Promise((_resolve, reject) => {
      const cutOff = (): void => reject(new OutcomeUnknownError());
      sent.push({ key: idempotencyKey, cutOff });
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
