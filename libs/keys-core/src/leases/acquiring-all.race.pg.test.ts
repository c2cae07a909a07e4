import { randomUUID } from 'node:crypto';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { seed, waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import { invariant, LeaseError } from '../kernel/errors.ts';
import {
  aCaller,
  acquired,
  type Leases,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { acquireAll, allOf, permit, releasedAll } from '../testing/together-fixture.ts';
import { createLeasesTogether, type LeasesTogether } from './acquiring-all.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];
const CONTROLLERS = 3;
const WORKERS_PER_CONTROLLER = 4;
const ROUNDS_PER_WORKER = 5;
const TOGETHER_MAX = 4;

/** Draws numbers below a limit. */
type Draw = (limit: number) => number;

function drawsOf(number: number): Draw {
  const generator = xoroshiro128plus(seed() + number);
  return (limit) => (generator.next() >>> 0) % limit;
}

/** What was asked for in one round, by its holder, and whether its holder has begun to release it. */
interface Round {
  readonly names: readonly string[];
  isReleasing: boolean;
}

/** Some of the names, in any order. */
function someOf(draw: Draw): string[] {
  const names = [...NAMES];
  const count = 1 + draw(TOGETHER_MAX);
  return Array.from({ length: count }, () => names.splice(draw(names.length), 1)[0] ?? '');
}

async function work(
  at: Leases & { readonly together: LeasesTogether },
  worker: string,
  draw: Draw,
  rounds: Map<string, Round>,
): Promise<number> {
  let servedCount = 0;
  for (let round = 0; round < ROUNDS_PER_WORKER; round += 1) {
    const holder = `${worker}-${String(round)}`;
    const own: Round = { names: someOf(draw), isReleasing: false };
    rounds.set(holder, own);
    const answer = await at.together.acquireAll(
      {
        scopes: own.names.map((name) => ({ namespace: 'race', name })),
        ttlMs: 600_000,
        waitMs: 120_000,
        holder,
        localTimeMs: 1_000_000,
        idempotencyKey: randomUUID(),
      },
      SERVICE,
      aCaller(),
    );
    invariant(answer.outcome === 'granted', `not served: ${JSON.stringify(answer)}`);
    servedCount += 1;
    own.isReleasing = true;
    await Promise.all(
      answer.leases.map(({ leaseId, fencingToken }) =>
        at.service.release({ leaseId, fencingToken, result: 'ok' }, SERVICE),
      ),
    );
  }
  return servedCount;
}

/** Holders that had some of their leases without the others, in one snapshot after the other. */
async function watch(
  { store }: Leases,
  rounds: ReadonlyMap<string, Round>,
  isOver: () => boolean,
): Promise<{ looks: number; seen: number; partial: string[] }> {
  const found = { looks: 0, seen: 0, partial: [] as string[] };
  while (!isOver()) {
    const rows = await store.general.$queryRaw<{ holder: string; names: string[] }[]>`
      select holder, array_agg(name) as names from lease
      where namespace = 'race' and lease_unexpired(released_at, end_reason, expires_at)
      group by holder`;
    found.looks += 1;
    for (const { holder, names } of rows) {
      const round = rounds.get(holder);
      // It may have begun to release them since.
      if (round === undefined || round.isReleasing) continue;
      found.seen += 1;
      if (names.length !== round.names.length) found.partial.push(`${holder}: ${names.join()}`);
    }
  }
  return found;
}

test('callers that want overlapping leases at several controllers are all served, and none has some without the others', async () => {
  const first = await openLeases();
  const controllers = [first];
  while (controllers.length < CONTROLLERS) {
    controllers.push(await openLeases({ databaseUrl: first.databaseUrl }));
  }
  const rounds = new Map<string, Round>();
  let isOver = false;
  const watching = watch(first, rounds, () => isOver);

  const served = await Promise.all(
    controllers.flatMap((at, place) => {
      const together = createLeasesTogether(at);
      return Array.from({ length: WORKERS_PER_CONTROLLER }, (_, worker) => {
        const number = place * WORKERS_PER_CONTROLLER + worker;
        return work({ ...at, together }, `w${String(number)}`, drawsOf(number), rounds);
      });
    }),
  );
  isOver = true;
  const { looks, seen, partial } = await watching;

  expect(served).toEqual(served.map(() => ROUNDS_PER_WORKER));
  expect(partial).toEqual([]);
  expect(Math.min(looks, seen)).toBeGreaterThan(0);
}, 120_000);

test('a call for several leases whose time is over is answered with the lease in the way; the same request waits on at its places', async () => {
  const at = await openLeases();
  const together = createLeasesTogether(at);
  const held = await acquired(at, { namespace: 'race', name: 'b', holder: 'bob' });
  const ask = (holder: string, idempotencyKey: string, callMs?: number) =>
    together.acquireAll(
      {
        scopes: ['a', 'b'].map((name) => ({ namespace: 'race', name })),
        ...{ ttlMs: 600_000, waitMs: 3_600_000, localTimeMs: 1_000_000 },
        ...{ holder, idempotencyKey, callMs },
      },
      SERVICE,
      aCaller(),
    );
  const key = randomUUID();

  const first = await ask('alice', key, 100);
  const goesOn = ask('alice', key);
  const behind = ask('carol', randomUUID());
  await waitUntil(async () => (await lineOf(at, 'b')).length === 2);
  const line = await lineOf(at, 'b');
  await released(at, held);
  const answer = await goesOn;

  expect(first).toMatchObject({
    ...{ outcome: 'waiting', by: 'bob', namespace: ['race'], key: 'b', place: 1, frozen: null },
  });
  expect(line).toEqual(['alice', 'carol']);
  invariant(answer.outcome === 'granted', 'its turn has come');
  for (const lease of answer.leases) await released(at, lease);
  expect(await behind).toMatchObject({ outcome: 'granted' });
});

test('callers that want several permits while their total changes are all granted or refused, and none waits forever', async () => {
  const one = await openLeases();
  const two = await openLeases({ databaseUrl: one.databaseUrl });
  await declarePermits(one, { perKey: 1, total: 2 }, 'race');
  let isOver = false;
  let changeCount = 0;
  const changing = async (): Promise<void> => {
    while (!isOver) {
      changeCount += 1;
      await declarePermits(one, { perKey: 1, total: 1 + (changeCount % 3) }, 'race');
    }
  };
  const asking = Array.from({ length: 24 }, async (_, index) => {
    const at = index % 2 === 0 ? one : two;
    const scopes = someOf(drawsOf(index)).map((name) => permit('race', name));
    const asked = acquireAll(at, scopes, { waitMs: 60_000, holder: `w${String(index)}` });
    try {
      await releasedAll(at, await allOf(asked));
      return `granted ${String(scopes.length)}`;
    } catch (error) {
      return error instanceof LeaseError ? error.code : String(error);
    }
  });

  const [outcomes] = await Promise.all([
    Promise.all(asking).finally(() => {
      isOver = true;
    }),
    changing(),
  ]);

  const kinds = new Set(outcomes.map((outcome) => outcome.split(' ')[0]));
  expect(kinds).toEqual(new Set(['granted', 'request.invalid']));
  // Of no more than the total has ever been.
  expect(outcomes).not.toContain('granted 4');
  expect(await one.store.general.$queryRaw`select waiter from lease_waiter`).toEqual([]);
});
