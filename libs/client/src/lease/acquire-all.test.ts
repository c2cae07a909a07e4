/** How several leases are confirmed together, and given up together. */
import { randomUUID } from 'node:crypto';
import type { AcquireAllAnswer, GrantedLease } from '@leasehold/keys-core/leases';
import { describe, expect, test } from 'vitest';
import { setUpLeases } from '../testing/lease-setup.ts';
import { failureOf } from '../testing/outcomes.ts';
import type { SimulatedWire } from '../testing/simulated-wire.ts';
import { createAcquireAll } from './acquire-all.ts';
import type { LeaseWire, TogetherWire } from './lease-wire.ts';

const NAMESPACE = ['user', 'update'];
const WAITING: AcquireAllAnswer = {
  outcome: 'waiting',
  by: 'bob',
  since: '2030-01-01T00:00:00.000Z',
  remainingMs: 1_000,
  waitedMs: 20_000,
  comment: null,
  action: null,
  waiters: 1,
  place: 1,
  frozen: null,
  namespace: NAMESPACE,
  key: 'a',
};
const SCOPES = ['a', 'b'].map((key) => ({ namespace: NAMESPACE, key }));

/** Each lease is granted by itself there, with a key of its own: the wire has no locks of others. */
function togetherOver(wire: SimulatedWire): LeaseWire & TogetherWire {
  const keyOf = (key: string, place: number): string => `${key} ${String(place)}`;
  const acquire = wire.acquire.bind(wire);
  const giveUp = wire.giveUp.bind(wire);
  return Object.assign(wire, {
    async acquireAll(
      request: Parameters<TogetherWire['acquireAll']>[0],
      scopes: Parameters<TogetherWire['acquireAll']>[1],
      { waitMs, ending }: Parameters<TogetherWire['acquireAll']>[2],
    ): Promise<AcquireAllAnswer> {
      const leases: GrantedLease[] = [];
      for (const [place, scope] of scopes.entries()) {
        const idempotencyKey = keyOf(request.idempotencyKey, place);
        const answer = await acquire({ ...request, ...scope, idempotencyKey }, waitMs, ending);
        if (answer.outcome !== 'granted') return { ...answer, ...scope };
        leases.push(answer.lease);
      }
      return { outcome: 'granted', leases, waitedMs: 0 };
    },
    async giveUp(...[request, ending]: Parameters<LeaseWire['giveUp']>): Promise<void> {
      for (const place of SCOPES.keys()) {
        await giveUp({ ...request, idempotencyKey: keyOf(request.idempotencyKey, place) }, ending);
      }
    },
  });
}

/** A client whose leases are granted as those that were waited for: they are to be confirmed. */
function setUpTogether() {
  const set = setUpLeases();
  const wire = togetherOver(set.wire);
  set.wire.isWaitedFor = true;
  const acquireAll = createAcquireAll(set.taker, wire, 'mover', (_scopes, intent, ask) =>
    ask(intent),
  );
  return { ...set, together: wire, acquireAll };
}

describe('several leases that were waited for', () => {
  test('are all given up if one of them is revoked before it is confirmed, and are not waited for again', async () => {
    const { clock, wire, together, acquireAll } = setUpTogether();
    const asked: string[] = [];
    const ask = together.acquireAll.bind(together);
    together.acquireAll = (request, ...rest) => {
      asked.push(request.idempotencyKey);
      return ask(request, ...rest);
    };
    wire.beforeHeartbeat = (count) => {
      if (count === 1) wire.revoke('b');
    };
    const refused = expect(acquireAll(SCOPES, { waitMs: 20_000 })).rejects.toMatchObject({
      code: 'lease.not_held',
    });
    await clock.advance(3_000);

    await refused;
    expect(new Set(asked).size).toBe(1);
    expect(wire.grantsCount).toBe(0);
  });

  test('an answer that comes after a later try began changes nothing', async () => {
    const { clock, wire, together, acquireAll } = setUpTogether();
    let answerLate: (answer: AcquireAllAnswer) => void = () => undefined;
    const late = new Promise<AcquireAllAnswer>((resolve) => (answerLate = resolve));
    const answers: AcquireAllAnswer[] = [];
    const ask = together.acquireAll.bind(together);
    let askedCount = 0;
    together.acquireAll = async (...args) => {
      askedCount += 1;
      if (askedCount === 1) return late;
      const answer = await ask(...args);
      answers.push(answer);
      return answer;
    };
    wire.beforeHeartbeat = () => {
      const [answer] = answers;
      if (answer?.outcome !== 'granted') return;
      const leases = answer.leases.map((lease) => ({ ...lease, leaseId: randomUUID() }));
      answerLate({ ...answer, leases });
    };
    const acquired = acquireAll(SCOPES, { waitMs: 3_000 });
    await clock.advance(12_000);

    const { grants } = await acquired;

    const [answer] = answers;
    expect(askedCount).toBe(2);
    expect(answer).toMatchObject({
      outcome: 'granted',
      leases: grants.map(({ leaseId }) => ({ leaseId })),
    });
  });
});

test('several leases are cancelled when the lease of the work around them is lost, and held until they are released', async () => {
  const { wire, holdings, define, acquireAll } = setUpTogether();
  const outer = await define().acquire('outer');
  const both = await outer.run(() => acquireAll(SCOPES, { ttlMs: 30_000, waitMs: 1_000 }));
  holdings.revoked({ leaseId: outer.leaseId, kind: 'revoked', reason: null, stopsByMs: 0 });

  expect(both.signal.reason).toBe(outer.signal.reason);
  expect(both.isHeld).toBe(false);
  expect(() => both.assertHeld()).toThrow(outer.signal.reason as Error);
  expect(wire.releases).toEqual([]);
  expect(await both.release()).toBe('released');
});

test('several leases are those that were checked, whatever their caller does to the lists afterwards', async () => {
  const { acquireAll } = setUpTogether();
  const scopes = ['a', 'b'].map((key) => ({ namespace: ['user', 'update'], key }));

  const acquired = acquireAll(scopes, { waitMs: 1_000 });
  for (const { namespace } of scopes) namespace.push('a.b');
  const { grants } = await acquired;

  expect(grants.map(({ namespace }) => namespace)).toEqual([NAMESPACE, NAMESPACE]);
});

test('several leases are released if their caller gives up while they are confirmed at last', async () => {
  const { clock, wire, together, acquireAll } = setUpTogether();
  wire.isWaitedFor = false;
  const ask = together.acquireAll.bind(together);
  together.acquireAll = async (...args) => {
    const answer = await ask(...args);
    // For so long that nobody may act on them before they are renewed.
    clock.jump(20_000);
    return answer;
  };
  const giveUp = new AbortController();
  wire.beforeHeartbeat = () => {
    wire.weather = 'silent';
  };

  const failure = failureOf(acquireAll(SCOPES, { ttlMs: 30_000, signal: giveUp.signal }));
  await clock.advance(50);
  wire.weather = 'fine';
  giveUp.abort(new Error('enough'));

  expect(await failure).toMatchObject({ message: 'enough' });
  await clock.advance(50);
  expect([wire.holderOf('a'), wire.holderOf('b')]).toEqual([undefined, undefined]);
});

test('a wait for several leases that is longer than one call takes goes on by the same request', async () => {
  const { clock, wire, together, acquireAll } = setUpTogether();
  wire.isWaitedFor = false;
  const asked: { readonly key: string; readonly callMs: number | undefined }[] = [];
  const ask = together.acquireAll.bind(together);
  together.acquireAll = async (request, scopes, how) => {
    asked.push({ key: request.idempotencyKey, callMs: how.callMs });
    if (asked.length > 2) return ask(request, scopes, how);
    await clock.advance(20_000);
    return WAITING;
  };

  const { grants } = await acquireAll(SCOPES, { waitMs: 600_000 });

  expect(grants).toHaveLength(2);
  expect(new Set(asked.map(({ key }) => key)).size).toBe(1);
  expect(asked.map(({ callMs }) => callMs)).toEqual([20_000, 20_000, 20_000]);
});
