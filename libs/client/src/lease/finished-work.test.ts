/** How work under a lease ends: what its caller gets, and what becomes of the lease. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { currentSignal } from '../context/work-context.ts';
import { createTestLeasehold, settled } from '../double/index.ts';
import { EnvironmentVetoedError, withEnvironmentLease } from '../environments.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { failureOf } from '../testing/outcomes.ts';
import type { LeaseDefinition } from './lease-definition.ts';
import { LeaseLost, LeaseRevoked } from './lease.ts';

const TTL_MS = 12_000;

type Setup = ReturnType<typeof setUpLeases>;
type Run = (work: () => unknown) => Promise<unknown>;

/** Every way in which the library runs work and releases its lease afterwards. */
const WAYS: readonly [string, (setup: Setup) => Run][] = [
  [
    'run',
    ({ define }) =>
      (work) =>
        define({ ttlMs: TTL_MS }).run('k', work),
  ],
  [
    'withEnvironmentLease',
    ({ taker }) =>
      (work) =>
        withEnvironmentLease(taker, environmentIntent(), { record: work }),
  ],
  [
    'the veto of withEnvironmentLease',
    ({ taker }) =>
      (work) =>
        withEnvironmentLease(taker, environmentIntent(), {
          veto: async () => {
            await work();
            return null;
          },
          record: () => 'recorded',
        }),
  ],
];

function environmentIntent() {
  return {
    scope: { face: 'environment', namespace: [], key: 'k' },
    ttlMs: TTL_MS,
    holder: 'me',
    waitMs: 0,
    renews: false,
    signal: undefined,
  } as const;
}

describe.each(WAYS)('work under %s', (name, wayOf) => {
  test('that blocked past its lease is lost, although it returned before anything was noticed', async () => {
    const setup = setUpLeases();

    const failure = await failureOf(wayOf(setup)(() => setup.clock.jump(TTL_MS)));

    expect(failure).toBeInstanceOf(LeaseLost);
    expect(failure).toMatchObject({ code: 'lease.lost', reason: 'expired' });
  });

  test('is under its lease also while a query of a builder runs that it returned', async () => {
    const setup = setUpLeases();
    let signal: AbortSignal | undefined;
    const query = {
      then(resolve: (value: null) => void) {
        signal = currentSignal();
        resolve(null);
      },
    };

    await wayOf(setup)(() => query);

    expect(signal?.aborted).toBe(false);
  });

  test('that blocked while somebody else took the lease is lost', async () => {
    const setup = setUpLeases();

    const failure = await failureOf(
      wayOf(setup)(async () => {
        setup.clock.jump(TTL_MS);
        await setup.wire.acquire(
          { namespace: [], key: 'k', ttlMs: TTL_MS, holder: 'other', idempotencyKey: 'other' },
          0,
          undefined as never,
        );
      }),
    );

    expect(failure).toMatchObject({ code: 'lease.lost' });
    expect(setup.wire.holderOf('k')).toBe('other');
  });

  test('whose lease was revoked is lost, although no notice of it came', async () => {
    const setup = setUpLeases();

    const failure = await failureOf(wayOf(setup)(() => setup.wire.revoke('k')));

    expect(failure).toBeInstanceOf(LeaseRevoked);
  });

  test('that throws any value leaves no lease and hides no error', async () => {
    for (const thrown of oddities()) {
      const setup = setUpLeases();

      const way = wayOf(setup)(() => {
        throw thrown;
      });
      // As a list: a promise would read the value.
      const [failure] = await way.then(
        () => [],
        (error: unknown) => [error],
      );

      // Some of them cannot be shown.
      expect(Object.is(failure, thrown)).toBe(true);
      expect(setup.wire.holderOf('k')).toBeUndefined();
      expect(setup.wire.releases.map(({ result }) => result)).toEqual(['failed']);
    }
  });

  test(`is a success if its lease ran out only after it: ${name}`, async () => {
    const setup = setUpLeases();
    setup.wire.weather = 'fine';
    const running = wayOf(setup)(() => {
      setup.wire.weather = 'lose_request';
      return 'done';
    });
    for (let turn = 0; turn < 5; turn += 1) await settled();
    await setup.clock.advance(TTL_MS);
    setup.wire.weather = 'fine';
    await setup.clock.advance(TTL_MS);

    await expect(running).resolves.toMatch(/done|recorded/u);
  });
});

test('lost work carries what it returned', async () => {
  const { clock, define } = setUpLeases();

  const failure = await failureOf(
    define({ ttlMs: TTL_MS }).run('k', () => {
      clock.jump(TTL_MS);
      return 42;
    }),
  );

  expect(failure).toMatchObject({ reason: 'expired', result: 42 });
});

test('work whose release was answered late by a repeated try was not lost', async () => {
  const { clock, wire, define } = setUpLeases();
  const running = define({ ttlMs: TTL_MS }).run('k', () => {
    wire.weather = 'lose_reply';
    return 'done';
  });
  for (let turn = 0; turn < 5; turn += 1) await settled();
  wire.weather = 'fine';
  await clock.advance(1_000);

  expect(await running).toBe('done');
});

test('work that released its lease itself is no loss', async () => {
  const { define } = setUpLeases();

  expect(
    await define().run('k', async (lease) => {
      await lease.release();
      return 'done';
    }),
  ).toBe('done');
});

test('a veto is no loss', async () => {
  const { taker } = setUpLeases();

  const vetoed = withEnvironmentLease(taker, environmentIntent(), {
    veto: () => 'no',
    record: () => 'recorded',
  });

  expect(await failureOf(vetoed)).toBeInstanceOf(EnvironmentVetoedError);
});

test('a service sees the same in a test Leasehold', async () => {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  const report: LeaseDefinition = leasehold.client().defineLease(['report'], { ttlMs: TTL_MS });

  const blocked = await failureOf(report.run('k', () => leasehold.stall(TTL_MS)));
  const odd = Object.create(null) as Error;
  const failed = await failureOf(report.run('k', () => Promise.reject(odd)));

  expect(blocked).toMatchObject({ code: 'lease.lost', reason: 'expired' });
  expect(Object.is(failed, odd)).toBe(true);
  expect(leasehold.holdingOf({ namespace: ['report'], key: 'k' })).toBeUndefined();
});

describe('a release', () => {
  test('ends the lease and never throws, with any result and any detail', async () => {
    for (const odd of oddities()) {
      const { wire, define } = setUpLeases();
      const first = await define().acquire('k');
      expect(await first.release('ok', odd as string)).toBe('released');
      const second = await define().acquire('k');
      expect(await second.release(odd as 'ok')).toBe('released');

      expect(wire.holderOf('k')).toBeUndefined();
      expect(wire.releases.map(({ result }) => result)).toEqual([
        'ok',
        odd === undefined ? 'ok' : 'failed',
      ]);
    }
  });
});

/** What other people's code throws, and gives. */
function oddities(): unknown[] {
  const failing = (): never => {
    throw new Error('not to be read');
  };
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return [
    Object.create(null),
    new Error('a\0b'),
    Object.assign(new Error(), { message: 5 }),
    Object.assign(new Error(), { message: Object.create(null) as string }),
    Object.defineProperty(new Error(), 'message', { get: failing }),
    new Proxy({}, { get: failing, getPrototypeOf: failing }),
    proxy,
    Symbol('thrown'),
    undefined,
    null,
    '\uD800',
    'x'.repeat(100_000),
    'done\0',
    5,
  ];
}
