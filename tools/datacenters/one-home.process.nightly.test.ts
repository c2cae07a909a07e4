import { startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { repetitions, waitUntil } from '@leasehold/testing';
import { leaseholdErrorOf } from '@leasehold/client';
import { backendPlacesOf, faultsOfHolders } from './holders.ts';

const ROUNDS_COUNT = repetitions({ short: 60, long: 200 });
/** About five times what a round takes on two cores that have nothing else to do. */
const ROUNDS_TIMEOUT_MS = ROUNDS_COUNT * 2_000;
const CALLERS_COUNT = 20;
const ROUNDS_AT_ONCE = 4;

let world: Datacenters;

beforeAll(async () => {
  world = await startDatacenters({ clusterUrl: inject('clusterUrl') });
}, 120_000);

afterAll(async () => {
  await (world as Datacenters | undefined)?.close();
});

interface Answer {
  readonly backendId: string;
  readonly datacenter: string;
  readonly spawned: boolean;
}

function connectFrom(at: string, name: string): Promise<Answer> {
  const asked = { key: { name }, spawn: { program: 'idle' } };
  return world.dc(at).api('client').keys.connect.mutate(asked);
}

/** What a busy machine may answer instead: that the other datacenter took too long. */
const OVERDUE = new Set(['reservation.datacenter_unreachable', 'request.outcome_unknown']);

/**
 * Callers in all datacenters ask for one fresh key at once; each could become its home.
 * @returns what they were answered, and how often one of them had to ask again.
 */
async function round(name: string, first: number) {
  let repeatedCount = 0;
  const answerTo = async (at: string): Promise<Answer> => {
    try {
      return await connectFrom(at, name);
    } catch (error) {
      if (!OVERDUE.has(leaseholdErrorOf(error)?.code ?? '')) throw error;
      repeatedCount += 1;
      return answerTo(at);
    }
  };
  const answers = await Promise.all(
    Array.from({ length: CALLERS_COUNT }, (_, caller) =>
      answerTo(world.names[(first + caller) % world.names.length] ?? ''),
    ),
  );
  const [{ backendId, datacenter } = { backendId: '', datacenter: '' }] = answers;
  // With hundreds of living backends, the test would measure the machine.
  await world
    .dc(datacenter)
    .api('operator')
    .backends.terminate.mutate({ backendId, mode: 'hard', reason: 'the round is over' });
  return { answers, repeatedCount };
}

/** How many homes the keys of all rounds have, as the databases record them. */
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
  test(
    'C39, I14: has one home and one backend, which every caller gets',
    async () => {
      const names = Array.from({ length: ROUNDS_COUNT }, (_, index) => `fresh-${String(index)}`);
      const unlike: string[] = [];
      const left = [...names];
      const loop = async (): Promise<void> => {
        for (let name = left.pop(); name !== undefined; name = left.pop()) {
          // Each datacenter in turn asks first.
          const { answers, repeatedCount } = await round(name, left.length);
          const backends = new Set(answers.map(({ backendId }) => backendId));
          const spawnedCount = answers.filter(({ spawned }) => spawned).length;
          // The caller that began it may have had to ask again, and was then told that it runs.
          const isBegunOnce = spawnedCount === 1 || (spawnedCount === 0 && repeatedCount > 0);
          if (backends.size !== 1 || !isBegunOnce) unlike.push(name);
        }
      };
      await Promise.all(Array.from({ length: ROUNDS_AT_ONCE }, loop));

      expect(unlike).toEqual([]);
      const counts = await homesOf(names);
      expect([counts.size, new Set(counts.values())]).toEqual([ROUNDS_COUNT, new Set([1])]);
    },
    ROUNDS_TIMEOUT_MS,
  );

  test('C39: lives in the datacenter that asked for it first, whichever that is', async () => {
    for (const first of world.names) {
      const name = `first-at-${first}`;
      expect(await connectFrom(first, name)).toMatchObject({ datacenter: first, spawned: true });
      for (const other of world.names) {
        expect(await connectFrom(other, name)).toMatchObject({ datacenter: first, spawned: false });
      }
    }
  });
});

const MOVED_KEYS_COUNT = 4;
const CALLERS_OF_MOVED_COUNT = 6;
const MOVING_MS = 12_000;
/** Of each key, however slow the machine: after the second one it has had backends in two places. */
const MOVES_COUNT_MIN = 2;
/** The errors that a mover may get while clients connect. */
const EXPECTED = new Set([
  'reservation.key_held',
  'reservation.same_datacenter',
  'reservation.moved_meanwhile',
  'reservation.chain_too_long',
  ...OVERDUE,
]);

function anywhere(): string {
  return world.names[Math.floor(Math.random() * world.names.length)] ?? '';
}

/** @returns `moved`, or why not. */
async function moveSomewhere(name: string): Promise<string> {
  try {
    await world
      .dc(anywhere())
      .api('operator')
      .reservations.move.mutate({ key: ['', name], toDatacenter: anywhere(), reason: 'at random' });
    return 'moved';
  } catch (error) {
    return leaseholdErrorOf(error)?.code ?? String(error);
  }
}

/** Ends a backend, and waits until its key is free: only such a key moves. */
async function end({ backendId, datacenter }: Answer, name: string): Promise<void> {
  const mode = 'hard' as const;
  await world
    .dc(datacenter)
    .api('operator')
    .backends.terminate.mutate({ backendId, mode, reason: 'the round is over' });
  await waitUntil(
    async () => {
      const key = await world.dc(anywhere()).api('viewer').keys.get.query({ name, datacenter });
      // Null: it was free, and a move that was under way has taken it elsewhere.
      return key === null || key.phase === 'free';
    },
    { what: `that ${name} is free`, timeoutMs: 30_000 },
  );
}

/**
 * Moves a free key, and asks for it everywhere: meanwhile, or just afterwards, when those that do not know
 * of the move still expect it where it was. @returns the outcome of the move.
 */
async function moveRound(name: string, faults: string[]): Promise<string> {
  const moving = moveSomewhere(name);
  if (Math.random() < 1 / 2) await moving;
  const answers = await Promise.all(
    Array.from({ length: CALLERS_OF_MOVED_COUNT }, (_, caller) =>
      // A caller whose time ran out, as on a busy machine, asks again.
      waitUntil(() => connectFrom(world.names[caller % world.names.length] ?? '', name)),
    ),
  );
  const places = new Map(answers.map((answer) => [answer.backendId, answer]));
  if (places.size !== 1) faults.push(`${name}: ${[...places.keys()].join(' and ')}`);
  await Promise.all([...places.values()].map((answer) => end(answer, name)));
  return moving;
}

describe('keys that are moved about while clients connect', () => {
  test('I14, I2, C61: have one holder at a time, and tokens that grow across datacenters', async () => {
    const names = Array.from({ length: MOVED_KEYS_COUNT }, (_, index) => `moved-${String(index)}`);
    await Promise.all(names.map(async (name) => end(await connectFrom(anywhere(), name), name)));
    const untilMs = performance.now() + MOVING_MS;
    const faults: string[] = [];
    const told: string[] = [];
    const loop = async (name: string): Promise<void> => {
      let movedCount = 0;
      while (performance.now() < untilMs || movedCount < MOVES_COUNT_MIN) {
        const outcome = await moveRound(name, faults);
        if (outcome === 'moved') movedCount += 1;
        told.push(outcome);
      }
    };
    await Promise.all(names.map(loop));

    const judged = await Promise.all(names.map((name) => faultsOfHolders(world, name)));
    expect([...faults, ...judged.flat()]).toEqual([]);
    expect(told.filter((outcome) => outcome !== 'moved' && !EXPECTED.has(outcome))).toEqual([]);
    // The test was a real one: every key had backends in more than one place.
    const places = await Promise.all(names.map((name) => backendPlacesOf(world, name)));
    expect(Math.min(...places.map(({ length }) => length))).toBeGreaterThan(1);
  });
});
