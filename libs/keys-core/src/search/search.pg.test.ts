import { describe, expect, test } from 'vitest';
import type { Caller, FoundKind } from '../kernel/face-types.ts';
import { HEARTBEAT_MS } from '../kernel/ladder.ts';
import { listLeases } from '../lists/index.ts';
import { createEventRollup } from '../stats/index.ts';
import { aBackend, aDrone } from '../testing/fleet-fixture.ts';
import { granted, type Kernel, openKernel } from '../testing/kernel-fixture.ts';
import { CLIENT, OPERATOR } from '../testing/keys-fixture.ts';
import { createNameFiller, createSearchService, type SearchService } from './index.ts';

const ADMIN: Caller = { ...OPERATOR, role: 'admin' };

interface Searching extends Kernel {
  readonly search: SearchService;
  /** The errors of searches of which other parts succeeded. */
  readonly failures: unknown[];
  /** What is found, as it is printed. */
  readonly texts: (
    text: string,
    caller?: Caller,
    kinds?: readonly FoundKind[],
  ) => Promise<string[]>;
  /** Adds the names of grants whose events are final, and walks through all tables. */
  readonly fill: () => Promise<void>;
}

async function openSearch(): Promise<Searching> {
  const kernel = await openKernel();
  const { store } = kernel;
  const failures: unknown[] = [];
  const search = createSearchService({
    store,
    heartbeatMs: HEARTBEAT_MS.standard,
    onFailure: (error) => failures.push(error),
  });
  let nowMs = 0;
  // Each walk goes on in each pass.
  const clock = { nowMs: () => (nowMs += 60_000) };
  const filler = createNameFiller({ general: store.general, clock });
  const rollup = createEventRollup(store);
  return {
    ...kernel,
    search,
    failures,
    async texts(text, caller = ADMIN, kinds) {
      const { items } = await search.find({ text, kinds, limit: 50 }, caller);
      return items.map((item) => item.text);
    },
    async fill() {
      await rollup.runOnce();
      await filler.runOnce();
    },
  };
}

/** A row of a lease, without an event, as a database that was in use has them. */
async function insertLease(
  { store }: Kernel,
  lease: { face?: string; namespace?: string; name: string; isFree?: boolean; home?: string },
): Promise<void> {
  const { face = 'key', namespace = '', name, isFree = false, home = null } = lease;
  await store.general.$executeRaw`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, released_at,
      end_reason, home_reservation)
    select ${face}, ${namespace}, ${name}, gen_random_uuid(), 1, 'h', 'p', 60000, 20000, 50000, 50000, now(),
      now(), now() + interval '1 hour', case when ${isFree}::boolean then now() end,
      case when ${isFree}::boolean then 'released' end, ${home}`;
}

/** JavaScript would write `ß` as `SS`. */
const upperCase = (text: string): string =>
  text
    .split('ß')
    .map((part) => part.toUpperCase())
    .join('ß');

async function insertLeases(on: Searching, names: readonly string[]): Promise<void> {
  for (const name of names) await insertLease(on, { name });
  await on.fill();
}

test('the exact name comes first, then names that begin with it, then words, then the rest', async () => {
  const on = await openSearch();
  await insertLeases(on, ['backroom', 'room-10', 'game-room', 'room', 'roomy-long-name', 'broom']);

  expect(await on.texts('room')).toEqual([
    'room',
    'room-10',
    'roomy-long-name',
    'game-room',
    'broom',
    'backroom',
  ]);
});

test('of equal matches, what is held comes before what is free, however short that is', async () => {
  const on = await openSearch();
  await insertLease(on, { name: 'room-1', isFree: true });
  await insertLease(on, { name: 'room-1000' });
  await on.fill();

  expect(await on.texts('room-')).toEqual(['room-1000', 'room-1']);
});

describe('a resource is found by its name as it is printed', () => {
  test.each([
    ['boards.eu/q4-roadmap', { namespace: 'boards.eu', name: 'q4-roadmap' }],
    ['/etc/passwd', { name: 'etc/passwd' }],
    ['user.a%2Fb/k', { namespace: 'user.a/b', name: 'k' }],
    ['a%252F/k', { namespace: 'a%2F', name: 'k' }],
    ['it\'s "quoted" \\ 100%_', { name: 'it\'s "quoted" \\ 100%_' }],
    ['räume.süd/Größe', { namespace: 'räume.süd', name: 'Größe' }],
    ['房间/一号', { namespace: '房间', name: '一号' }],
  ])('%s', async (text, lease) => {
    const on = await openSearch();
    await insertLease(on, lease);
    await insertLease(on, { name: 'other' });
    await on.fill();
    const inside = text.slice(1, -1);

    expect(await on.texts(text)).toEqual([text]);
    expect(await on.texts(upperCase(text))).toEqual([text]);
    if (inside.length > 0) expect(await on.texts(inside)).toContain(text);
  });
});

test.each(['o', 'ot', 'her', 'zz'])(
  'a short text is found wherever it stands: %s',
  async (text) => {
    const on = await openSearch();
    const names = ['other', 'pizza-zz', 'mother'];
    await insertLeases(on, names);

    expect((await on.texts(text)).sort()).toEqual(names.filter((n) => n.includes(text)).sort());
  },
);

test('a grant is found at once, before its name is filled, and afterwards', async () => {
  const on = await openSearch();
  await on.fill();
  await granted(on, { face: 'lease', namespace: 'jobs', name: 'Nightly' });

  expect(await on.texts('ghtl')).toEqual(['jobs/Nightly']);
  await on.fill();
  await on.fill();
  await on.store.general.$executeRaw`delete from lease_event`;
  expect(await on.texts('ghtl')).toEqual(['jobs/Nightly']);
});

test('a list by a part of a name finds what was filled, what was granted since, and what never was', async () => {
  const on = await openSearch();
  const namesOf = async (contains: string): Promise<string[]> => {
    const filter = { includeChildren: true, namespaces: null, contains };
    const order = { by: 'name', direction: 'asc', after: null, limit: 10 } as const;
    return (await listLeases(on.store.reads, 'lease', filter, order)).map(({ name }) => name);
  };
  await insertLease(on, { face: 'lease', namespace: 'a', name: 'Old-1' });
  const before = await namesOf('A/OLD');
  await on.fill();
  await granted(on, { face: 'lease', namespace: 'a', name: 'old-2' });

  expect(before).toEqual(['Old-1']);
  expect(await namesOf('A/OLD')).toEqual(['Old-1', 'old-2']);
  expect(await namesOf('old-2')).toEqual(['old-2']);
});

test('what is gone is not found, and its name is removed', async () => {
  const on = await openSearch();
  await insertLeases(on, ['room-1', 'room-2']);
  await on.store.general.$executeRaw`delete from lease where name = 'room-1'`;

  expect(await on.texts('room')).toEqual(['room-2']);
  await on.fill();
  const rows = await on.store.general.$queryRaw<{ name: string }[]>`select name from search_name`;
  expect(rows).toEqual([{ name: 'room-2' }]);
});

test('a key that has moved to another datacenter is not found where it was', async () => {
  const on = await openSearch();
  const unique = '0a1b2c3d-0000-4000-8000-0123456789ab';
  await insertLease(on, { name: 'moved', home: `elsewhere.${unique}` });
  await insertLease(on, { name: 'moved-not', home: `${on.store.datacenter}.${unique}` });
  await on.fill();

  expect(await on.texts('moved')).toEqual(['moved-not']);
});

test('until the names of a database that was in use are filled, the answer says that it is not complete', async () => {
  const on = await openSearch();
  await insertLease(on, { name: 'old' });
  const before = await on.search.find({ text: 'ld', limit: 10 }, ADMIN);
  await on.fill();

  expect(before).toMatchObject({ items: [], isComplete: false });
  expect(await on.search.find({ text: 'ld', limit: 10 }, ADMIN)).toMatchObject({
    items: [{ text: 'old', kind: 'key', state: 'held', detail: 'h', match: 'substring' }],
    isComplete: true,
  });
});

test('a kind that cannot be searched is named, and the others are found all the same', async () => {
  const on = await openSearch();
  await insertLeases(on, ['room-1']);
  await on.store.general.$executeRaw`alter table api_token rename column name to gone`;

  const found = await on.search.find({ text: 'room', limit: 10 }, ADMIN);

  expect(found).toMatchObject({ items: [{ text: 'room-1' }], failed: ['token'] });
  expect(on.failures).toHaveLength(1);
});

test('a holder is found in the namespaces of its reader, however much it holds elsewhere', async () => {
  const on = await openKernel();
  const holder = 'worker@host:1';
  for (let count = 0; count < 6; count += 1) {
    await granted(on, { name: `n${String(count)}`, namespace: 'a', holder });
  }
  await granted(on, { name: 'own', namespace: 'b', holder });
  const search = createSearchService({
    store: on.store,
    heartbeatMs: HEARTBEAT_MS.standard,
    onFailure: (error) => expect.fail(String(error)),
  });

  const { items } = await search.find({ text: holder, limit: 5 }, { ...ADMIN, namespaces: ['b'] });

  expect(items.map(({ text }) => text)).toEqual(['b/own']);
});

describe('what a line of a log names is found by', () => {
  test.each<[string, (of: { leaseId: string; fencingToken: string; ticketId: string }) => string]>([
    ['lease_id', ({ leaseId }) => leaseId],
    ['lease_id', ({ leaseId }) => `21:31:26 WARN lease ${leaseId.toUpperCase()} was lost`],
    ['token', ({ fencingToken }) => `refused: fencingToken=${fencingToken}`],
    ['ticket', ({ ticketId }) => `{"ticket":"${ticketId}"}`],
    ['holder', () => 'held by payments@pay-7:4242 since noon'],
    ['backend_id', () => 'backend bk-0000000001 crashed'],
    ['address', () => 'connect ECONNREFUSED 10.1.2.3:4000'],
    ['address', () => `10.1.2.3:4000 ${'x'.repeat(2_000)}`],
  ])('its %s (%#)', async (by, line) => {
    const on = await openKernel();
    const { general } = on.store;
    const search = createSearchService({
      store: on.store,
      heartbeatMs: HEARTBEAT_MS.standard,
      onFailure: (error) => expect.fail(String(error)),
    });
    const grant = await granted(on, {
      name: 'settle',
      namespace: 'pay',
      holder: 'payments@pay-7:4242',
    });
    // As long as they are in use.
    const fencingToken = '1795812116734';
    await general.$executeRaw`
      update lease set fencing_token = ${fencingToken}::bigint where lease_id = ${grant.leaseId}::uuid`;
    const [ticket] = await general.$queryRaw<{ id: string }[]>`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      values ('lease', 'pay', 'settle', gen_random_uuid(), 'w', 'w', now() + interval '1 hour')
      returning ticket_id::text as id`;
    const { backendId } = await aBackend(general, { ...(await aDrone(general)), namespace: 'pay' });
    await general.$executeRaw`
      update backend set id = 'bk-0000000001', address = '10.1.2.3:4000' where id = ${backendId}`;
    const text = line({ leaseId: grant.leaseId, fencingToken, ticketId: ticket?.id ?? '' });

    const { items } = await search.find({ text, limit: 10 }, ADMIN);
    const foreign = await search.find({ text, limit: 10 }, { ...ADMIN, namespaces: ['other'] });

    const isOfBackend = by === 'backend_id' || by === 'address';
    expect(items).toMatchObject([
      {
        by,
        kind: isOfBackend ? 'backend' : 'lease',
        text: isOfBackend ? 'bk-0000000001' : 'pay/settle',
      },
    ]);
    expect(foreign.items).toEqual([]);
  });
});

describe('who finds what', () => {
  async function withEverything(): Promise<Searching> {
    const on = await openSearch();
    const { general } = on.store;
    for (const face of ['key', 'lease', 'environment']) {
      await insertLease(on, { face, namespace: 'team', name: `alpha-${face}` });
      await insertLease(on, { face, namespace: 'team2', name: `alpha-${face}` });
    }
    await general.$executeRaw`
      insert into drone (id, datacenter, clock_id, session, version, programs, capacity, registered_at)
      values ('drone-alpha', 'local', gen_random_uuid(), 1, '1', '[]', 1, now())`;
    await general.$executeRaw`
      insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag,
        lease_id, fencing_token, status, status_rank)
      select 'bk-alpha-' || namespace, 'drone-alpha', 'local', gen_random_uuid(), 'room', '[]', '{}', namespace,
        name, '', lease_id, 1, 'ready', 3
      from lease where face = 'key'`;
    await general.$executeRaw`
      insert into person (id, email, name) values (gen_random_uuid(), 'ada@example.com', 'Ada Alpha')`;
    await general.$executeRaw`
      insert into api_token (id, name, secret_hash, role, created_by)
      values ('aaaaaaaa-0000-4000-8000-000000000001', 'alpha-ci', 'hash-alpha', 'client', 'ada')`;
    await on.fill();
    return on;
  }
  const kindsOf = async (on: Searching, caller: Caller): Promise<string[]> => {
    const { items } = await on.search.find({ text: 'ALPHA', limit: 100 }, caller);
    return [...new Set(items.map(({ kind }) => kind))].sort();
  };

  test('an administrator finds everything; people and tokens are for nobody else', async () => {
    const on = await withEverything();
    const things = ['backend', 'drone', 'environment', 'key', 'lease'];

    expect(await kindsOf(on, ADMIN)).toEqual([...things, 'person', 'token'].sort());
    expect(await kindsOf(on, OPERATOR)).toEqual(things);
    expect(await kindsOf(on, CLIENT)).toEqual(things);
    expect(await on.texts('aaaaaaaa-0000', ADMIN)).toEqual(['alpha-ci']);
    expect(await on.texts('hash-alpha', ADMIN)).toEqual([]);
    expect(await on.texts('alpha', ADMIN, ['drone', 'person'])).toEqual([
      'drone-alpha',
      'ada@example.com',
    ]);
  });

  test('a caller that is limited to namespaces finds what is in them, and nothing of all', async () => {
    const on = await withEverything();
    const limited = { ...ADMIN, namespaces: ['team'] };

    expect((await on.texts('alpha', limited)).sort()).toEqual([
      'bk-alpha-team',
      'team/alpha-environment',
      'team/alpha-key',
      'team/alpha-lease',
    ]);
    expect(await on.texts('team2/alpha-key', limited)).toEqual([]);
    expect(await on.texts('bk-alpha-team2', limited)).toEqual([]);
  });
});
