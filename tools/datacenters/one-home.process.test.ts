import { databasesIn, startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import { backendPlacesOf, faultsOfHolders } from './holders.ts';
import { freshBundles } from '../faults/fresh-bundles.ts';

const ROUNDS_COUNT = 200;
const CALLERS_COUNT = 20;
const ROUNDS_AT_ONCE = 4;

let world: Datacenters;

beforeAll(async () => {
  await freshBundles();
  world = await startDatacenters({ databaseOf: databasesIn(inject('clusterUrl')) });
}, 120_000);

afterAll(async () => {
  await (world as Datacenters | undefined)?.close();
});

interface Answer {
  readonly backendId: string;
  readonly datacenter: string;
  readonly spawned: boolean;
}

/** Everybody asks for one fresh key at once, in all datacenters, and hopes to have it at home. */
async function round(name: string): Promise<Answer[]> {
  const answers = await Promise.all(
    Array.from({ length: CALLERS_COUNT }, (_, caller) => {
      const at = world.names[caller % world.names.length] ?? '';
      return world
        .dc(at)
        .api('client')
        .keys.connect.mutate({ key: { name }, spawn: { program: 'idle' } });
    }),
  );
  const [{ backendId, datacenter } = { backendId: '', datacenter: '' }] = answers;
  // Hundreds of living backends would measure the machine.
  await world
    .dc(datacenter)
    .api('operator')
    .backends.terminate.mutate({ backendId, mode: 'hard', reason: 'the round is over' });
  return answers;
}

/** How many homes the keys of all rounds have, by the databases' words. */
async function homesOf(names: readonly string[]): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const datacenter of world.names) {
    const rows = await world
      .dc(datacenter)
      .query<{ name: string }>(
        `select name from reservation where state = 'active' and name = any($1)`,
        [names],
      );
    for (const { name } of rows) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

describe('one key, wanted in three datacenters at once', () => {
  test('C39, I14: has one home and one backend, and every caller is given that one', async () => {
    const names = Array.from({ length: ROUNDS_COUNT }, (_, index) => `fresh-${String(index)}`);
    const unlike: string[] = [];
    const homes = new Set<string>();
    const left = [...names];
    const loop = async (): Promise<void> => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) {
        const answers = await round(name);
        const backends = new Set(answers.map(({ backendId }) => backendId));
        const spawnedCount = answers.filter(({ spawned }) => spawned).length;
        if (backends.size !== 1 || spawnedCount !== 1) unlike.push(name);
        for (const { datacenter } of answers) homes.add(datacenter);
      }
    };
    await Promise.all(Array.from({ length: ROUNDS_AT_ONCE }, loop));

    expect(unlike).toEqual([]);
    const counts = await homesOf(names);
    expect([counts.size, new Set(counts.values())]).toEqual([ROUNDS_COUNT, new Set([1])]);
    // Not that one of them always won.
    expect(homes.size).toBeGreaterThan(1);
  });
});

const MOVED_KEYS_COUNT = 4;
const CONNECTORS_COUNT = 3;
const MOVING_MS = 12_000;
/** What a mover and a client may be told while the other is at it. */
const EXPECTED = new Set([
  'reservation.key_held',
  'reservation.same_datacenter',
  'reservation.moved_meanwhile',
  'reservation.chain_too_long',
  'key.terminating',
  'key.holder_unreachable',
]);

function anywhere(): string {
  return world.names[Math.floor(Math.random() * world.names.length)] ?? '';
}

/** Does something until it is time to stop. @returns how often it was done, and what else was said. */
async function again(
  untilMs: number,
  work: () => Promise<unknown>,
): Promise<{ doneCount: number; unexpected: string[] }> {
  let doneCount = 0;
  const unexpected: string[] = [];
  while (performance.now() < untilMs) {
    try {
      await work();
      doneCount += 1;
    } catch (error) {
      const code = leaseholdErrorOf(error)?.code ?? String(error);
      if (!EXPECTED.has(code)) unexpected.push(code);
    }
  }
  return { doneCount, unexpected };
}

/** Has the key, and gives it up again. */
async function connectAndEnd(name: string): Promise<void> {
  const { backendId, datacenter } = await world
    .dc(anywhere())
    .api('client')
    .keys.connect.mutate({ key: { name }, spawn: { program: 'idle' }, waitMs: 2_000 });
  await world
    .dc(anywhere())
    .api('operator')
    .backends.terminate.mutate({ backendId, mode: 'hard', reason: 'done', datacenter });
}

async function moveSomewhere(name: string): Promise<void> {
  await world
    .dc(anywhere())
    .api('operator')
    .reservations.move.mutate({ key: ['', name], toDatacenter: anywhere(), reason: 'at random' });
}

describe('keys that are moved about while clients connect', () => {
  test('I14, I2, C61: have one holder at a time, and tokens that grow across datacenters', async () => {
    const names = Array.from({ length: MOVED_KEYS_COUNT }, (_, index) => `moved-${String(index)}`);
    await Promise.all(names.map(connectAndEnd));
    const untilMs = performance.now() + MOVING_MS;
    const movers = names.map((name) => again(untilMs, () => moveSomewhere(name)));
    const clients = names.flatMap((name) =>
      Array.from({ length: CONNECTORS_COUNT }, () => again(untilMs, () => connectAndEnd(name))),
    );
    const [moved, connected] = [await Promise.all(movers), await Promise.all(clients)];

    const judged = await Promise.all(names.map((name) => faultsOfHolders(world, name)));
    expect(judged.flat()).toEqual([]);
    expect([...moved, ...connected].flatMap(({ unexpected }) => unexpected)).toEqual([]);
    // It was put to the test: every key had backends in more than one place.
    const places = await Promise.all(names.map((name) => backendPlacesOf(world, name)));
    expect(Math.min(...places.map(({ length }) => length))).toBeGreaterThan(1);
    expect(moved.reduce((sum, { doneCount }) => sum + doneCount, 0)).toBeGreaterThan(
      MOVED_KEYS_COUNT,
    );
  });
});
