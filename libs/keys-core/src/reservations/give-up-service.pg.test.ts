import { randomUUID } from 'node:crypto';
import { createLogger } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { type Kernel, openKernel, TRUSTING_WATCH, UNAUDITED } from '../testing/kernel-fixture.ts';
import type { EtcdGivenUp, ReadGivenUp } from './etcd/etcd-given-up.ts';
import { createGiveUpService } from './give-up-service.ts';
import { type GiveUpService, NONE_GIVEN_UP } from './given-up.ts';
import { createKnownGivenUp, createOwnStanding } from './standing.ts';

const ACTOR = { actor: 'alice', role: 'admin', source: null } as const;
const INPUT = { datacenter: 'dc3', reason: 'it burnt down', abandon: true };

/** What etcd has of dc3, in memory. */
interface Shared {
  row: ReadGivenUp | undefined;
  /** How many answers to a removal are lost, after etcd has carried it out. */
  lostAnswers: number;
  /** Whether etcd answers nothing after a declaration is in it. */
  isGoneOnceDeclared?: boolean;
}

/** Giving up dc3, of which nobody answers unless it is said otherwise. */
async function aService(
  rows: Shared,
  isSilent = true,
  store?: Kernel['store'],
): Promise<GiveUpService> {
  const shared: EtcdGivenUp = {
    list: () => {
      if (rows.row === undefined) return Promise.resolve([]);
      return rows.isGoneOnceDeclared === true
        ? Promise.reject(new Error('gone'))
        : Promise.resolve([rows.row]);
    },
    declare: (givenUp) => {
      const isFirst = rows.row === undefined;
      rows.row ??= { ...givenUp, revision: randomUUID() };
      return Promise.resolve(isFirst);
    },
    open: (seen, opened) => {
      if (!opened.isAbandoned) return Promise.resolve(false);
      rows.row = { ...seen, opened, revision: randomUUID() };
      return Promise.resolve(true);
    },
    takeBack: ({ revision }) => {
      const isSame = rows.row?.revision === revision;
      if (isSame) rows.row = undefined;
      if (!isSame || rows.lostAnswers === 0) return Promise.resolve(isSame);
      rows.lostAnswers -= 1;
      // The client sends it again, and is told that there is no such row any more.
      return Promise.resolve(false);
    },
    putBack: () => Promise.resolve(),
    remainingMs: () => Promise.resolve(0),
    isRegistered: () => Promise.resolve(true),
    readStanding: () => Promise.resolve(undefined),
    changeStanding: () => Promise.resolve(),
  };
  return createGiveUpService({
    store: store ?? (await openKernel()).store,
    shared,
    known: { ...NONE_GIVEN_UP, refresh: () => Promise.resolve() },
    peers: {
      names: ['dc3'],
      get: () => ({ isSilent: () => Promise.resolve(isSilent) }),
    },
  });
}

function declared(): ReadGivenUp {
  return {
    datacenter: 'dc3',
    declaredAt: '2026-11-29T12:00:00.000Z',
    declaredBy: 'alice',
    declaredIn: 'dc1',
    reason: 'it burnt down',
    opened: null,
    revision: '7',
  };
}

test.each([
  ['declared lost', undefined],
  ['opened', declared()],
])('a datacenter that answers is not %s, and one that is silent is', async (_what, row) => {
  const rows: Shared = { row, lostAnswers: 0 };
  const answering = await aService(rows, false);
  const silent = await aService(rows);

  await expect(answering.giveUp(INPUT, ACTOR)).rejects.toMatchObject({
    code: 'reservation.datacenter_reachable',
    details: { datacenter: 'dc3' },
  });
  expect(rows.row).toEqual(row);
  expect(await silent.giveUp(INPUT, ACTOR)).toMatchObject({ opened: { by: 'alice' } });
});

test('what was done is in the audit once, though nothing answered after it', async () => {
  const { store } = await openKernel();
  const waiting = { ...INPUT, abandon: false };
  const rows: Shared = { row: undefined, lostAnswers: 0, isGoneOnceDeclared: true };
  const entries = () =>
    store.general.$queryRaw`
      select action, actor, reason, detail from audit where resource = 'datacenter:dc3' order by id`;
  const declaredLost = {
    action: 'datacenters.giveUp',
    actor: 'alice',
    reason: 'it burnt down',
    detail: { abandon: false, isFinal: false, remainingMs: null },
  };
  const service = await aService(rows, true, store);
  await expect(service.giveUp(waiting, ACTOR)).rejects.toThrow('gone');
  expect(await entries()).toEqual([declaredLost]);
  rows.isGoneOnceDeclared = false;

  const early = { code: 'reservation.give_up_early' };
  await expect(service.giveUp(waiting, ACTOR)).rejects.toMatchObject(early);
  expect(await entries()).toEqual([declaredLost]);
  await service.takeBack(waiting, ACTOR);
  // Of a controller that has ended since.
  rows.row = declared();
  await expect(service.giveUp(waiting, { ...ACTOR, actor: 'bob' })).rejects.toMatchObject(early);
  await expect(service.giveUp(waiting, ACTOR)).rejects.toMatchObject(early);
  await expect(service.giveUp(waiting, ACTOR)).rejects.toMatchObject(early);
  await service.giveUp(INPUT, ACTOR);

  expect(await entries()).toMatchObject([
    declaredLost,
    { action: 'datacenters.takeBack' },
    { action: 'datacenters.giveUp', actor: 'alice', detail: { isFinal: false } },
    { action: 'datacenters.giveUp', actor: 'alice', detail: { abandon: true, isFinal: true } },
  ]);
});

test('of two who declare it lost at the same moment the audit names the one who did', async () => {
  const { store } = await openKernel();
  const waiting = { ...INPUT, abandon: false };
  const rows: Shared = { row: undefined, lostAnswers: 0 };
  const service = await aService(rows, true, store);

  const views = await Promise.all(
    ['alice', 'bob'].map((actor) => service.giveUp(waiting, { ...ACTOR, actor })),
  );

  const actor = rows.row?.declaredBy;
  expect(views.map(({ declaredBy }) => declaredBy)).toEqual([actor, actor]);
  expect(
    await store.general.$queryRaw`select actor from audit where resource = 'datacenter:dc3'`,
  ).toEqual([{ actor }]);
});

test('a declaration is taken back though the answer to its removal was lost', async () => {
  const rows: Shared = { row: declared(), lostAnswers: 1 };
  const service = await aService(rows);

  await service.takeBack(INPUT, ACTOR);

  expect(rows.row).toBeUndefined();
  await expect(service.takeBack(INPUT, ACTOR)).rejects.toMatchObject({
    code: 'reservation.not_given_up',
  });
});

test('a declaration that is taken back is in the audit before, once for each call, and stays where it cannot be', async () => {
  const { store } = await openKernel();
  const rows: Shared = { row: declared(), lostAnswers: 1 };
  const service = await aService(rows, true, store);

  await expect(service.takeBack(INPUT, UNAUDITED)).rejects.toThrow();
  expect(rows.row).toEqual(declared());
  await service.takeBack(INPUT, ACTOR);

  expect(rows.row).toBeUndefined();
  expect(
    await store.general.$queryRaw`
      select action, actor, reason, detail from audit where resource = 'datacenter:dc3'`,
  ).toEqual([
    {
      action: 'datacenters.takeBack',
      actor: 'alice',
      reason: 'it burnt down',
      detail: { outcome: 'asked' },
    },
  ]);
});

test.each([
  ['has no row of it', []],
  ['has it declared only', [declared()]],
])(
  'what was final stays known where the store was restored and %s, also after a restart',
  async (_what, rows) => {
    const { store } = await openKernel();
    const opened = { at: '', by: 'alice', reason: '', tokenFloor: '17', isAbandoned: true };
    let stored: readonly ReadGivenUp[] = [{ ...declared(), opened }];
    const log = createLogger({ name: 'test', level: 'silent' });
    const shared = {
      list: () => Promise.resolve(stored),
      remainingMs: () => Promise.resolve(null),
    };
    const [before, after] = [0, 1].map(() => createKnownGivenUp({ shared, store, log }));
    await before?.refresh();

    stored = rows;
    await before?.refresh();
    await after?.load();
    await after?.refresh();

    for (const known of [before, after]) {
      expect(known?.list()).toMatchObject([{ datacenter: 'dc3', opened, remainingMs: 0 }]);
    }
  },
);

test('that a datacenter was given up is noticed there, although its own database fails, and is remembered by the next start', async () => {
  const { store } = await openKernel();
  const { store: closed } = await openKernel({ clockWatch: TRUSTING_WATCH });
  await closed.close();
  const own = { ...closed };
  const opened = { at: '', by: 'alice', reason: '', tokenFloor: '17', isAbandoned: true };
  const log = createLogger({ name: 'test', level: 'silent' });
  let stored = [{ ...declared(), opened }];
  const shared = {
    list: () => Promise.resolve(stored),
    remainingMs: () => Promise.resolve(null),
    changeStanding: () => Promise.resolve(),
  };
  const times = { keyTtlMs: 5_000, startAloneMs: 60_000 };
  const start = async () => {
    const known = createKnownGivenUp({ shared, store: own, log });
    await known.load().catch(() => undefined);
    const standing = createOwnStanding({ datacenter: 'dc3', shared, known, store: own, ...times });
    return standing.confirm();
  };

  await expect(start()).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
  own.general = store.general;
  await expect(start()).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
  // The store is restored to before it.
  stored = [];

  await expect(start()).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
});

test('a declaration that was taken back is known no more', async () => {
  const { store } = await openKernel();
  let stored = [declared()];
  const log = createLogger({ name: 'test', level: 'silent' });
  const shared = { list: () => Promise.resolve(stored), remainingMs: () => Promise.resolve(null) };
  const known = createKnownGivenUp({ shared, store, log });
  await known.refresh();

  stored = [];
  await known.refresh();

  expect(known.list()).toEqual([]);
});
