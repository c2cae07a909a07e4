/** How a client goes on listening for revocations. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { ManualClock, settled } from '../double/index.ts';
import { LeaseholdCallError } from '../transport/errors.ts';
import { Background } from './calls.ts';
import { createLeaseFaces } from './lease-faces.ts';

interface Subscriber {
  onStarted(): void;
  onError(error: unknown): void;
}

/** A client that has acquired a lease, and so listens: what it subscribes with, in order. */
async function setUpSession() {
  const clock = new ManualClock();
  const subscribers: Subscriber[] = [];
  const subscribe = (_input: unknown, subscriber: Subscriber): { unsubscribe(): void } => {
    subscribers.push(subscriber);
    return { unsubscribe: () => undefined };
  };
  const faces = createLeaseFaces({
    api: { leases: { session: { subscribe } } } as never,
    machine: { clock, uuid: () => 'id', random: () => 0 },
    url: 'http://controller',
    answerMs: 10_000,
    transport: 'ws',
    reachability: { isHopeless: () => true, explain: (call: () => unknown) => call() } as never,
    background: new Background(),
    holder: 'me',
  });
  onTestFinished(() => faces.close());
  const acquired = faces.leases.acquire({
    scope: { face: 'lease', namespace: [], key: 'k' },
    ttlMs: 30_000,
    holder: 'me',
    waitMs: 0,
    renews: true,
    signal: undefined,
  });
  acquired.catch(() => undefined);
  await settled();
  return { clock, subscribers };
}

describe('a session for revocations', () => {
  test('that a quota refused is opened again, less and less often up to every 30 s', async () => {
    const { clock, subscribers } = await setUpSession();
    const pausesMs: number[] = [];

    for (let refused = 1; refused <= 8; refused += 1) {
      const refusedAtMs = clock.nowMs();
      subscribers.at(-1)?.onError(new LeaseholdCallError('quota.exceeded'));
      while (subscribers.length === refused && clock.nowMs() < refusedAtMs + 60_000) {
        await clock.advance(1_000);
      }
      pausesMs.push(clock.nowMs() - refusedAtMs);
    }

    expect(pausesMs).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  });

  test.each(['auth.forbidden', 'client.closed'] as const)(
    'that ends with %s is not opened again',
    async (code) => {
      const { clock, subscribers } = await setUpSession();

      subscribers[0]?.onError(new LeaseholdCallError(code));
      await clock.advance(60_000);

      expect(subscribers).toHaveLength(1);
    },
  );
});
