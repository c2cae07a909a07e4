import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import { LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { Grant } from '../kernel/lease.ts';
import { createReaper } from '../keys/index.ts';
import { onlyRow } from '../postgres/sql.ts';
import {
  aRequest,
  type Kernel,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { revoke } from './sql/revoke.ts';

/** Short enough that grants are taken over many times within the test, in real time. */
const LADDER: Ladder = { renewAfterMs: 20, softAfterMs: 40, hardAfterMs: 50, ttlMs: 60 };
const RESOURCE_NAMES = ['a', 'b', 'c'];
const WORKERS_PER_CONTROLLER = 6;
const STEPS_PER_WORKER = 60;

/** Until which moment of the database's clock each grant was promised at least. */
type Promises = Map<string, number>;

/** What a worker does next with the grant that it has. */
type Act = 'renew' | 'release' | 'fail' | 'revoke' | 'let go';
const ACTS: readonly Act[] = ['renew', 'renew', 'renew', 'release', 'fail', 'revoke', 'let go'];

async function databaseNow(kernel: Kernel): Promise<number> {
  const rows = await kernel.store.general.$queryRaw<{ at: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as at`;
  return onlyRow(rows).at;
}

/** Draws numbers below a limit. */
type Draw = (limit: number) => number;

function drawsOf(number: number): Draw {
  const generator = xoroshiro128plus(seed() + number);
  return (limit) => (generator.next() >>> 0) % limit;
}

/** Takes, renews, releases and forgets grants at random; notes what was promised. */
async function work(kernel: Kernel, worker: string, draw: Draw, promises: Promises): Promise<void> {
  let own: Grant | undefined;
  for (let step = 0; step < STEPS_PER_WORKER; step += 1) {
    if (own === undefined) {
      const name = RESOURCE_NAMES[draw(RESOURCE_NAMES.length)] ?? 'a';
      const request = aRequest({ name, holder: worker, ladder: LADDER });
      const outcome = await unlessContended(kernel.leases.grant(request));
      if (outcome?.outcome === 'granted') {
        own = outcome.grant;
        promises.set(own.leaseId, own.expiresAt);
      }
      continue;
    }
    if (await act(kernel, own, draw, promises)) continue;
    own = undefined;
  }
}

/** Undefined when others changed the row at each of its tries, as a slow machine makes likely. */
async function unlessContended<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LeaseError && error.code === 'grant.contended') return undefined;
    throw error;
  }
}

/** One act on a grant. @returns whether the worker still holds it as far as it knows. */
async function act(kernel: Kernel, own: Grant, draw: Draw, promises: Promises): Promise<boolean> {
  const ref = { leaseId: own.leaseId, fencingToken: own.fencingToken };
  switch (ACTS[draw(ACTS.length)] ?? 'let go') {
    case 'renew': {
      const sentAt = await databaseNow(kernel);
      const answer = await unlessContended(kernel.leases.renew('lease', renewalOf(ref)));
      // Not known whether it was renewed: what was promised before is still promised.
      if (answer === undefined) return true;
      if (answer.outcome === 'refused') return false;
      promises.set(own.leaseId, Math.floor(sentAt + LADDER.ttlMs));
      return true;
    }
    case 'release':
    case 'fail':
      promises.delete(own.leaseId);
      await unlessContended(kernel.leases.release('lease', releaseOf(ref)));
      return false;
    case 'revoke':
      promises.delete(own.leaseId);
      await revoke(kernel.store.general, 'lease', [
        {
          leaseId: own.leaseId,
          mode: 'force',
          abandon: false,
          actor: 'op',
          reason: 'race',
          namespaces: null,
        },
      ]);
      return false;
    case 'let go':
      return false;
  }
}

describe(`random workers on few resources through two controllers, seed ${String(seed())}`, () => {
  test('I1 I2 I5 I11 I13 the event log shows one holder at a time, growing tokens, at most one end per grant, and none too early', async () => {
    const first = await openKernel();
    const second = await openKernel({ databaseUrl: first.databaseUrl });
    const promises: Promises = new Map();
    const reapers = [createReaper(first.store), createReaper(second.store)];
    let isOver = false;

    const reaping = reapers.map(async (reaper) => {
      while (!isOver) await reaper.runOnce();
    });
    await Promise.all(
      [first, second].flatMap((kernel, controller) =>
        Array.from({ length: WORKERS_PER_CONTROLLER }, (_, index) =>
          work(
            kernel,
            `w${String(controller)}${String(index)}`,
            drawsOf(controller * WORKERS_PER_CONTROLLER + index),
            promises,
          ),
        ),
      ),
    );
    isOver = true;
    await Promise.all(reaping);

    const grants = await first.store.general.$queryRaw<GrantSeen[]>`
      with grants as (
        select g.id, g.name, g.lease_id, g.fencing_token, g.at,
          lead(g.id) over w as next_id, lead(g.at) over w as next_at,
          lead(g.fencing_token) over w as next_token
        from lease_event g
        where g.kind in ('granted', 'taken_over')
        window w as (partition by g.name order by g.id)
      )
      select g.lease_id::text as "leaseId", e.kind as "endKind", coalesce(e.count, 0)::int as "endCount",
        extract(epoch from e.at)::float8 * 1000 as "endedAt",
        coalesce(g.next_token > g.fencing_token, true) as "isTokenGrowing",
        coalesce(e.id > g.id and e.id < g.next_id and g.next_at >= e.at, g.next_id is null) as "isAlone"
      from grants g
      left join lateral (
        select min(x.id) as id, min(x.at) as at, min(x.kind) as kind, count(*) as count
        from lease_event x
        where x.lease_id = g.lease_id and x.kind in ('released', 'failed', 'expired', 'revoked')
      ) e on true`;
    expect(grants.length).toBeGreaterThan(RESOURCE_NAMES.length * 10);
    expect(grants.filter((grant) => grant.endKind === 'expired').length).toBeGreaterThan(0);
    expect(
      grants.filter((grant) => !grant.isTokenGrowing),
      'I2',
    ).toEqual([]);
    expect(
      grants.filter((grant) => !grant.isAlone),
      'I1',
    ).toEqual([]);
    expect(
      grants.filter((grant) => grant.endCount > 1),
      'I13',
    ).toEqual([]);
    const early = grants.filter(
      ({ leaseId, endKind, endedAt }) =>
        endKind === 'expired' && (endedAt ?? 0) < (promises.get(leaseId) ?? 0),
    );
    expect(early, 'I5').toEqual([]);
  });
});

interface GrantSeen {
  readonly leaseId: string;
  readonly endKind: string | null;
  readonly endCount: number;
  readonly endedAt: number | null;
  readonly isTokenGrowing: boolean;
  readonly isAlone: boolean;
}
