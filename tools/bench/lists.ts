import { KEY_LADDERS, type Caller } from '@leasehold/keys-core';
import { createKeyService, type KeyListInput } from '@leasehold/keys-core/keys';
import { createLeaseOperations, createRevocationWatch } from '@leasehold/keys-core/leases';
import { listBackends } from '@leasehold/keys-core/fleet';
import type { Figure } from './rig/figures.ts';
import { atMost, milliseconds } from './rig/quantities.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { durationMsOf, median } from './rig/rounds.ts';
import { seedLists } from './rig/seed-lists.ts';

const FIRST_PAGE_MS = 300;
/** A statement is cancelled after two seconds; a page may take several statements. */
const LARGE_MS = 2_000;
const ROUNDS = 7;
const PAGE = 100;

type Read = () => Promise<unknown>;

/** What a first page takes, in every order and by every filter, at 100,000 keys and at a million. */
export async function measureLists(rig: Rig): Promise<Figure[]> {
  const sizes = rig.isQuick ? [10_000] : [100_000, 1_000_000];
  const figures: Figure[] = [];
  for (const size of sizes) {
    const database = await rig.database(`bench_lists_${String(size)}`);
    await seedLists(database.pool, size);
    const msMax = size <= 100_000 ? FIRST_PAGE_MS : LARGE_MS;
    for (const [what, read] of readsOf(database)) {
      figures.push(await timesOf(`${what}, of ${String(size)}`, read, msMax));
    }
  }
  return figures;
}

async function timesOf(what: string, read: Read, msMax: number): Promise<Figure> {
  const took: number[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    // The first read finds nothing in memory, and people notice that too: it counts.
    took.push(await durationMsOf(read));
  }
  const worstMs = Math.max(...took);
  return {
    what: `${what}: worst, and median`,
    ours: milliseconds(median(took)),
    result: milliseconds(worstMs),
    required: atMost(msMax),
  };
}

function readsOf(database: BenchDatabase): [string, Read][] {
  return [...keyReads(database), ...leaseReads(database)];
}

const ANYONE: Caller = { principal: 'bench', actor: 'bench', role: 'admin', namespaces: null };
const LIMITED: Caller = { ...ANYONE, namespaces: ['team-7', 'team-9.app-59'] };

function keyReads({ store, leases }: BenchDatabase): [string, Read][] {
  const keys = createKeyService({
    store,
    leases,
    ladder: KEY_LADDERS.standard,
    heartbeatMs: 7_000,
    chooseDrone: () => Promise.reject(new Error('nothing is started here')),
  });
  const list = (input: Partial<KeyListInput>, caller = ANYONE): Read => {
    return () => keys.list({ limit: PAGE, ...input }, caller);
  };
  const sorts = ['name', 'grantedAt', 'expiresAt'] as const;
  const orders = sorts.flatMap((sort) =>
    (['asc', 'desc'] as const).map((direction): [string, Read] => [
      `keys by ${sort} ${direction}`,
      list({ sort, direction }),
    ]),
  );
  const filters: Record<string, Partial<KeyListInput>> = {
    'an exact name': { name: 'room-4711' },
    'a prefix': { prefix: 'room-471' },
    'a prefix that nothing has': { prefix: 'nothing' },
    'a namespace with children': { namespace: 'team-7', includeChildren: true },
    held: { phase: 'held' },
    expiring: { phase: 'expiring' },
    expired: { phase: 'expired' },
    free: { phase: 'free' },
    'a holder': { holder: 'd7' },
    'a holder that holds nothing': { holder: 'nobody' },
    'a drone': { droneId: 'd7' },
    'a tag': { tag: 'tag-77' },
    'one grant': { leaseId: '00000000-0000-4000-8000-000000000000' },
    'expiring on a drone, soonest first': { phase: 'expiring', droneId: 'd2', sort: 'expiresAt' },
    'held, of a holder and a prefix': { phase: 'held', holder: 'd7', prefix: 'room-7' },
    'free in a namespace, newest first': {
      phase: 'free',
      namespace: 'team-7',
      includeChildren: true,
      sort: 'grantedAt',
      direction: 'desc',
    },
  };
  return [
    ...orders,
    ...Object.entries(filters).map(([what, input]): [string, Read] => [
      `keys: ${what}`,
      list(input),
    ]),
    ['keys: expiring, for a limited caller', list({ phase: 'expiring' }, LIMITED)],
    ['keys by expiresAt, for a limited caller', list({ sort: 'expiresAt' }, LIMITED)],
    ['keys: the second page by expiresAt', secondPage(keys)],
  ];
}

function secondPage(keys: ReturnType<typeof createKeyService>): Read {
  let cursor: string | undefined;
  return async () => {
    const input = { sort: 'expiresAt', limit: PAGE } as const;
    cursor ??= (await keys.list(input, ANYONE)).nextCursor ?? undefined;
    await keys.list({ ...input, cursor }, ANYONE);
  };
}

function leaseReads({ store }: BenchDatabase): [string, Read][] {
  const revocations = createRevocationWatch(store, () => undefined);
  const leases = createLeaseOperations({ store, face: 'lease', revocations });
  return [
    ['leases by expiresAt asc', () => leases.list({ sort: 'expiresAt', limit: PAGE }, ANYONE)],
    ['leases: expiring', () => leases.list({ phase: 'expiring', limit: PAGE }, ANYONE)],
    ['the tree of leases', () => leases.tree({}, ANYONE)],
    ['the tree below one namespace', () => leases.tree({ namespace: 'team-7' }, ANYONE)],
    ['contention of leases', () => leases.contention({ limit: PAGE }, ANYONE)],
    ['backends, newest first', () => listBackends(store.general, { limit: PAGE }, null)],
    [
      'live backends of a drone',
      () => listBackends(store.general, { droneId: 'd7', live: true, limit: PAGE }, null),
    ],
    [
      'backends, for a limited caller',
      () => listBackends(store.general, { limit: PAGE }, LIMITED.namespaces),
    ],
  ];
}
