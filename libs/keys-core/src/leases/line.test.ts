import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import type { GrantRequest } from '../kernel/lease.ts';
import { Line, type Waiter } from './line.ts';

const FROZEN = new LeaseError('environment.frozen', undefined, {
  details: { remainingMs: 60_000 },
});

function heldOff(remainingMs: number): LeaseError {
  return new LeaseError('grant.hold_off', undefined, {
    details: { reason: 'restored', remainingMs },
  });
}

function deployment(
  place: number,
  change: Pick<GrantRequest, 'override'> & { tag?: string },
  looks: string[],
): Waiter {
  const request = {
    face: 'environment',
    namespace: 'team',
    name: 'prod',
    leaseId: String(place),
    idempotencyKey: String(place),
    holder: `v${String(place)}`,
    principal: 'token',
    tag: 'deploy',
    comment: null,
    metadata: null,
    ladder: serviceLadder(60_000),
    actor: 'service',
    ...change,
  } as const;
  return {
    request,
    ticket: { ticketId: request.leaseId, number: place, asOf: 0 },
    life: { signal: new AbortController().signal, isAlive: () => true },
    startedAtMs: 0,
    giveUpAtMs: 3_600_000,
    look: () => {
      looks.push(request.holder);
      return request.tag === 'deploy' ? Promise.reject(FROZEN) : Promise.resolve(undefined);
    },
    attempt: () => Promise.resolve({ outcome: 'recorded' }),
    answerOf: () => {
      throw new Error('nobody gives up here');
    },
    resolve: () => undefined,
    reject: () => undefined,
  };
}

test('those whom one freeze stops alike are passed over by one look; one with an override has its own', async () => {
  const line = new Line(() => 0);
  const looks: string[] = [];
  const override = { role: 'operator', reason: 'urgent' } as const;
  for (let place = 1; place <= 100; place += 1) line.add(deployment(place, {}, looks));
  line.add(deployment(101, { override }, looks));
  line.add(deployment(102, { tag: 'rollback' }, looks));

  await setImmediate();

  expect(looks).toEqual(['v1', 'v101', 'v102']);
  expect(line.waiters).toHaveLength(101);
});

test('a freeze is the reason of one that waits until the next look for it, which may find another', async () => {
  let nowMs = 0;
  const line = new Line(() => nowMs);
  const first = deployment(1, {}, []);
  const waiter = { ...first, callEndsAtMs: 100 };
  line.add(waiter);
  await setImmediate();

  const atOnce = [line.frozenBy(waiter), line.maySayWhy(waiter, nowMs)];
  nowMs = 1_000;

  expect(atOnce).toEqual([FROZEN, true]);
  expect([line.frozenBy(waiter), line.maySayWhy(waiter, nowMs)]).toEqual([undefined, false]);
});

test('one look during a hold-off refuses those whose wait ends before it; all others keep their places', async () => {
  const line = new Line(() => 0);
  const looks: string[] = [];
  const refused: string[] = [];
  for (let place = 1; place <= 100; place += 1) {
    const waiter = deployment(place, {}, looks);
    const { holder } = waiter.request;
    line.add({
      ...waiter,
      giveUpAtMs: place % 10 === 0 ? 60_000 : 60_001,
      look() {
        looks.push(holder);
        return Promise.reject(heldOff(60_000));
      },
      reject(error) {
        refused.push(`${holder} ${(error as LeaseError).code}`);
      },
    });
  }

  await setImmediate();

  expect(looks).toEqual(['v1']);
  expect(refused).toEqual(
    [10, 20, 30, 40, 50, 60, 70, 80, 90, 100].map((place) => `v${String(place)} grant.hold_off`),
  );
  expect(line.waiters).toHaveLength(90);
});

test('a line looks once a second at most during a hold-off, and asks for its waiters in their order after it', async () => {
  let nowMs = 0;
  const line = new Line(() => nowMs);
  const looksAtMs: number[] = [];
  const asked: string[] = [];
  for (const place of [1, 2, 3]) {
    const waiter = deployment(place, {}, []);
    line.add({
      ...waiter,
      look() {
        looksAtMs.push(nowMs);
        const leftMs = 60_000 - nowMs;
        return leftMs > 0 ? Promise.reject(heldOff(leftMs)) : Promise.resolve(undefined);
      },
      attempt() {
        asked.push(waiter.request.holder);
        return waiter.attempt();
      },
    });
  }

  for (; nowMs < 62_000; nowMs += 50) {
    line.tick(nowMs);
    await setImmediate();
  }

  expect(looksAtMs.filter((atMs) => atMs < 60_000).length).toBeLessThanOrEqual(60);
  expect(asked).toEqual(['v1', 'v2', 'v3']);
});

test('one may be answered during a hold-off that it waits, and a hold-off is no freeze', async () => {
  const line = new Line(() => 0);
  const first = deployment(1, {}, []);
  const waiter = { ...first, callEndsAtMs: 0, look: () => Promise.reject(heldOff(60_000)) };
  line.add(waiter);

  await setImmediate();

  expect([line.maySayWhy(waiter, 0), line.frozenBy(waiter)]).toEqual([true, undefined]);
});

test('one whose caller vanishes while it is looked for asks for nothing, and keeps its ticket; the next is looked for', async () => {
  const line = new Line(() => 0);
  const looks: string[] = [];
  const attempts: string[] = [];
  const caller = new AbortController();
  for (const place of [1, 2]) {
    const waiter = deployment(place, { tag: 'rollback' }, looks);
    line.add({
      ...waiter,
      life: { signal: place === 1 ? caller.signal : waiter.life.signal, isAlive: () => true },
      attempt: () => {
        attempts.push(waiter.request.holder);
        return waiter.attempt();
      },
    });
  }
  caller.abort();

  await setImmediate();

  expect(looks).toEqual(['v1', 'v2']);
  expect(attempts).toEqual(['v2']);
});
