import { expect, test } from 'vitest';
import { ManualClock } from './index.ts';
import { type Arrival, TestRegistry } from './registry.ts';

const SCOPE = { face: 'lease', namespace: ['jobs'], key: 'nightly' } as const;
const TTL_MS = 30_000;

function setUpRegistry() {
  const clock = new ManualClock();
  const registry = new TestRegistry(clock, () => undefined);
  const acquire = (idempotencyKey: string) => {
    const { face, ...scope } = SCOPE;
    const arrival: Arrival = {
      face,
      request: { ...scope, ttlMs: TTL_MS, holder: 'me', idempotencyKey },
      waitMs: 0,
      localTimeMs: clock.nowMs(),
      isThere: () => true,
    };
    return registry.acquire(arrival);
  };
  return { clock, registry, acquire };
}

test('a request that is sent again is answered with its grant, and the time that is left of it', async () => {
  const { clock, registry, acquire } = setUpRegistry();
  const first = await acquire('one');
  await clock.advance(5_000);

  const again = await acquire('one');

  expect(first.outcome).toBe('granted');
  // The deadlines are those of the grant: its expiry is where it was.
  expect(again).toEqual({ ...first, waitedMs: 0 });
  expect(registry.historyOf(SCOPE).map(({ kind }) => kind)).toEqual(['granted']);
});

test('a request whose grant is over is another one', async () => {
  const { clock, acquire } = setUpRegistry();
  const first = await acquire('one');
  await clock.advance(TTL_MS);

  const again = await acquire('one');

  expect([first, again]).toMatchObject([{ outcome: 'granted' }, { outcome: 'granted' }]);
  expect(again).not.toMatchObject(first);
});
