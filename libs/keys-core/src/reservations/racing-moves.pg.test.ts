import { expect, test } from 'vitest';
import {
  connectAt,
  openDatacenters,
  type TestDatacenters,
} from '../testing/datacenters-fixture.ts';
import { end, homesOf, move, sendHeartbeats, visit } from '../testing/moving/moving-fixture.ts';
import type { Moved } from './reservation-types.ts';

/** How far a move is when connects begin to race it: undefined when they start together. */
const PLACES = ['question', undefined, 'pointer', undefined] as const;

/** A move, and the moment at which it has asked the new datacenter, or has left and stores its pointer. */
function moveUpTo(
  world: TestDatacenters,
  to: string,
  place: 'question' | 'pointer',
): [Promise<Moved>, Promise<void>] {
  let isThere = (): void => undefined;
  const start = new Promise<void>((resolve) => {
    isThere = resolve;
  });
  world.outside = {
    before: ({ what }) => {
      if (place === 'pointer' && what === 'putPointer') isThere();
    },
    after: (call) => {
      if (place === 'question' && call.what === 'reservationStatus' && call.to === to) isThere();
    },
  };
  const moving = move(world.get('dc2'), to);
  moving.then(isThere, isThere);
  return [moving, start];
}

test('C61 I14 moves racing connects: never two that run, and tokens only grow', async () => {
  const world = await openDatacenters();
  await visit(world, world.get('dc1'));
  const tokens: bigint[] = [];
  const moves: PromiseSettledResult<unknown>[] = [];
  for (let round = 0; round < 15; round += 1) {
    await sendHeartbeats(world);
    const to = world.all[round % 3]?.name ?? '';
    const place = PLACES[round % PLACES.length];
    const moving = place === undefined ? [move(world.get('dc2'), to)] : moveUpTo(world, to, place);
    await moving[1];

    const [moved, ...connects] = await Promise.allSettled([
      moving[0],
      ...world.all.map((at) => connectAt(at)),
    ]);

    moves.push(moved);
    const made = connects.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    expect(made).toHaveLength(3);
    expect(new Set(made.map(({ backendId }) => backendId)).size).toBe(1);
    expect((await homesOf(world, 'demo')).length).toBe(1);
    tokens.push(BigInt(made[0]?.fencingToken ?? 0));
    if (made[0] !== undefined) await end(world, made[0]);
  }
  expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => (a < b ? -1 : 1)));
  expect(new Set(moves.map(({ status }) => status))).toEqual(new Set(['fulfilled', 'rejected']));
});
