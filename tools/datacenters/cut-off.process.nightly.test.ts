import { quickestMs, waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { refusalOf } from './errors.ts';
import { useDatacenters } from './use-datacenters.ts';

/** How soon a majority decides, whichever datacenter was cut off. */
const DECIDED_MS_MAX = 2_000;
/** The longest that a caller waits for the answer that the holder is unknown. */
const TOLD_MS_MAX = 6_000;
/** From memory: nothing is sent over a line. */
const AT_ONCE_MS_MAX = 300;

const on = useDatacenters();
const { freshName, connect, reserve } = on;

function resolve(at: string, name: string) {
  return on.world
    .dc(at)
    .api('viewer')
    .reservations.resolve.query({ key: ['', name] });
}

/** The leader of etcd, and the others. */
async function ranks(): Promise<{ leader: string; others: [string, string] }> {
  const leader = await waitUntil(() => on.world.leader(), { what: 'a leader' });
  const [first = '', second = ''] = on.world.names.filter((name) => name !== leader);
  return { leader, others: [first, second] };
}

/** How long it takes until a datacenter has reserved a key, in milliseconds from now. */
async function decidedIn(at: string): Promise<number> {
  const startedAtMs = performance.now();
  await waitUntil(() => reserve(at, freshName()), { what: `a reservation by ${at}` });
  return performance.now() - startedAtMs;
}

async function renewedAt(at: string, name: string): Promise<number> {
  const [row] = await on.world.dc(at).query<{ atMs: number; isLive: boolean }>(
    `select extract(epoch from renewed_at)::float8 * 1000 as "atMs",
        clock_timestamp() < expires_at as "isLive"
      from lease where face = 'key' and name = $1`,
    [name],
  );
  expect(row?.isLive).toBe(true);
  return row?.atMs ?? 0;
}

describe('while a datacenter is cut off and nobody is told', () => {
  test('F19: the others go on to reserve fresh keys', async () => {
    const { others } = await ranks();
    const [cut, left] = others;
    on.world.cut(cut);

    expect(await decidedIn(left)).toBeLessThan(DECIDED_MS_MAX);
  });

  test('F9, F19: when it had the leader, the others elect another one, and reserve fresh keys', async () => {
    const { leader, others } = await ranks();
    on.world.cut(leader);
    await waitUntil(async () => ![undefined, leader].includes(await on.world.leader()));

    const [first, second] = await Promise.all(others.map(decidedIn));
    expect(Math.max(first ?? Infinity, second ?? Infinity)).toBeLessThan(DECIDED_MS_MAX);
  });

  test('F9, C41: it resolves keys that it resolved before, and refuses fresh ones in time', async () => {
    const [home = '', alone = ''] = on.world.names;
    const name = freshName();
    await connect(home, name);
    await resolve(alone, name);
    on.world.cut(alone);
    const cutAtMs = performance.now();

    // The first asks a member of etcd that is silent.
    expect(await resolve(alone, name)).toMatchObject({ outcome: 'found', datacenter: home });
    expect(performance.now() - cutAtMs).toBeLessThan(TOLD_MS_MAX);
    expect(await quickestMs(() => resolve(alone, name))).toBeLessThan(AT_ONCE_MS_MAX);
    const refusal = await refusalOf(connect(alone, freshName()));
    expect(refusal).toMatchObject({ code: 'reservation.store_unreachable', retryable: true });
    expect(refusal.tookMs).toBeLessThan(TOLD_MS_MAX);
  });

  test('F9: there, backends keep their keys past their expiry, and are connected to', async () => {
    const [, alone = ''] = on.world.names;
    const name = freshName();
    const before = await connect(alone, name);
    const renewed = await renewedAt(alone, name);
    on.world.cut(alone);

    // Twice: the first renewal alone could have been granted before the cut.
    await waitUntil(async () => (await renewedAt(alone, name)) > renewed, { timeoutMs: 15_000 });
    const again = await renewedAt(alone, name);
    await waitUntil(async () => (await renewedAt(alone, name)) > again, { timeoutMs: 15_000 });
    const after = await connect(alone, name);
    expect([after.backendId, after.fencingToken]).toEqual([before.backendId, before.fencingToken]);
  });

  test('F9: who wants a key that lives there is told where it lives, on either side', async () => {
    const [home = '', alone = ''] = on.world.names;
    const [atHome, atAlone] = [freshName(), freshName()];
    const [here, there] = [await connect(home, atHome), await connect(home, atAlone, alone)];
    expect([here.datacenter, there.datacenter]).toEqual([home, alone]);
    on.world.cut(alone);

    for (const [at, name, lives] of [
      [home, atAlone, alone],
      [alone, atHome, home],
    ] as const) {
      // Nobody knows whether the first call arrived; after it, the other side is known to be unreachable.
      const first = await refusalOf(connect(at, name));
      expect(first.details).toMatchObject({ datacenter: lives });
      expect(first.tookMs).toBeLessThan(TOLD_MS_MAX);
      const second = await refusalOf(connect(at, name));
      expect(second).toMatchObject({
        code: 'reservation.datacenter_unreachable',
        retryable: true,
        details: { datacenter: lives },
      });
    }
  });

  test('C41: a controller that is restarted there starts, resolves, and connects to what lives there', async () => {
    const [home = '', alone = ''] = on.world.names;
    const [far, near] = [freshName(), freshName()];
    await connect(home, far);
    await resolve(alone, far);
    await connect(alone, near);
    on.world.cut(alone);
    await on.world.dc(alone).controller().kill();

    await on.world.dc(alone).restartController();

    expect(await resolve(alone, far)).toMatchObject({ outcome: 'found', datacenter: home });
    // Its drone has to find it again first; by then the key may have expired.
    const after = await waitUntil(() => connect(alone, near));
    expect(after.datacenter).toBe(alone);
    expect(await refusalOf(reserve(alone, freshName()))).toMatchObject({
      code: 'reservation.store_unreachable',
    });
  });

  test('F9: and afterwards all agree on every key', async () => {
    const [home = '', alone = '', third = ''] = on.world.names;
    const meanwhile = freshName();
    on.world.cut(alone);
    const before = await waitUntil(() => connect(home, meanwhile));
    await refusalOf(connect(alone, meanwhile));

    on.world.heal();
    await on.world.untilInTouch();

    const answers = await Promise.all([alone, third, home].map((at) => connect(at, meanwhile)));
    expect(answers.map(({ backendId }) => backendId)).toEqual(
      Array.from({ length: answers.length }, () => before.backendId),
    );
  });
});
