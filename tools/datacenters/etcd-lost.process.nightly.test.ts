import { Etcd3, type IRangeResponse } from 'etcd3';
import { waitUntil } from '@leasehold/testing';
import { leaseholdErrorOf } from '@leasehold/client';
import { describe, expect, test } from 'vitest';
import { refusalOf } from './errors.ts';
import { faultsOfHolders } from './holders.ts';
import { useDatacenters } from './use-datacenters.ts';

const UNREACHABLE = 'reservation.store_unreachable';
/** Each datacenter asks for each key so often. */
const ROUNDS_COUNT = 3;
const KEYS_PER_HOME = 3;
const TEST_MS_MAX = 180_000;

const on = useDatacenters();
const { freshName, connect, reserve } = on;

/** The error of a connect, or the home that it names. */
async function answerOf(call: ReturnType<typeof connect>): Promise<string> {
  return call.then(
    ({ datacenter }) => datacenter,
    (error: unknown) => leaseholdErrorOf(error)?.code ?? String(error),
  );
}

/** Frees a key of a datacenter, and moves it to another one. */
async function move(name: string, from: string, to: string): Promise<void> {
  const { backendId } = await connect(from, name);
  const operator = on.world.dc(from).api('operator');
  await operator.backends.terminate.mutate({ backendId, mode: 'hard', reason: 'it moves' });
  const order = { key: ['', name] as [string, string], toDatacenter: to, reason: 'nearer' };
  await waitUntil(() => operator.reservations.move.mutate(order), { what: `the move of ${name}` });
}

/** What one member of etcd knows by itself of all rows of a kind. */
async function rowsAt(member: number, kind: string): Promise<IRangeResponse['kvs']> {
  const client = new Etcd3({ hosts: on.world.etcd.endpoints[member] ?? '' });
  try {
    const key = Buffer.from(`/leasehold/v1/${kind}/`);
    const range_end = Buffer.from(`/leasehold/v1/${kind}0`);
    return (await client.kv.range({ key, range_end, serializable: true })).kvs;
  } finally {
    client.close();
  }
}

/** Which of these keys one member of etcd knows by itself. */
async function knownNearby(member: number, names: readonly string[]): Promise<string[]> {
  const rows = await rowsAt(member, 'reservation');
  const known = rows.map(({ key }) => key.toString());
  return names.filter((name) => known.some((key) => key.endsWith(JSON.stringify(['', name]))));
}

/**
 * Waits until a datacenter has written its own row after everything that is in etcd now, and knows so: an etcd
 * that ends before it has answered leaves it without that knowledge.
 */
async function untilBeat(at: string): Promise<void> {
  const newest = async (kind: string, name = ''): Promise<number> => {
    const rows = (await rowsAt(0, kind)).filter(({ key }) => key.toString().includes(`/${name}`));
    return Math.max(...rows.map((row) => Number(row.mod_revision)));
  };
  const latest = Math.max(await newest('reservation'), await newest('pointer'));
  await waitUntil(async () => (await newest('witness', `${at}/`)) > latest, { what: 'a beat' });
  // What nobody has reserved is asked of etcd itself, and by now the earlier call is answered as well.
  const unknown = { key: ['', freshName()] as [string, string] };
  await on.world.dc(at).api('client').reservations.resolve.query(unknown);
}

interface Living {
  readonly name: string;
  readonly home: string;
}

/** What callers in other datacenters are told of keys, again and again. */
async function toldElsewhere(keys: readonly Living[]): Promise<Set<string>> {
  const told = new Set<string>();
  for (let round = 0; round < ROUNDS_COUNT; round += 1) {
    for (const { name, home } of keys) {
      for (const at of on.world.names.filter((other) => other !== home)) {
        told.add(await answerOf(connect(at, name)));
      }
    }
  }
  return told;
}

/** Every datacenter finds each key at its home, it is the only one, and no two held it at once. */
async function expectOneHome(keys: readonly Living[]): Promise<void> {
  for (const { name, home } of keys) {
    for (const at of on.world.names) {
      // Its drone has to find its controller first.
      const found = await waitUntil(() => connect(at, name), { what: `${name} at ${at}` });
      expect([name, found.datacenter]).toEqual([name, home]);
    }
    expect([name, await homesOf(name)]).toEqual([name, [home]]);
    expect(await faultsOfHolders(on.world, name)).toEqual([]);
  }
}

/** Where a key has an active home, as the databases record it. */
async function homesOf(name: string): Promise<string[]> {
  const found = await Promise.all(
    on.world.names.map(async (datacenter) => {
      const text = `select from reservation where state = 'active' and name = $1`;
      const rows = await on.world.dc(datacenter).query(text, [name]);
      return rows.map(() => datacenter);
    }),
  );
  return found.flat();
}

describe('an etcd that is put back to an older snapshot under running controllers', () => {
  test(
    'C40 I14 gives no key a second home; known homes go on, and all is well once the controllers were restarted one after the other',
    async () => {
      const [one = '', two = '', three = ''] = on.world.names;
      const [known, moved] = [freshName(), freshName()];
      const before = await connect(one, known);
      await connect(two, known);
      await connect(one, moved);

      const restore = await on.world.etcd.backUp();
      await on.world.untilInTouch();
      const lost = await Promise.all(
        [one, two].flatMap((home) =>
          Array.from({ length: KEYS_PER_HOME }, async () => {
            const name = freshName();
            return { name, home, answer: await connect(home, name) };
          }),
        ),
      );
      await move(moved, one, three);
      // The third one has written nothing but the row by which it notices this.
      await untilBeat(three);
      await restore();
      expect(await knownNearby(0, [moved, ...lost.map(({ name }) => name)])).toEqual([moved]);

      expect([...(await toldElsewhere(lost))]).toEqual([UNREACHABLE]);
      expect([three, UNREACHABLE]).toContain(await answerOf(connect(two, moved)));
      for (const at of on.world.names) {
        expect(await refusalOf(reserve(at, freshName()))).toMatchObject({ code: UNREACHABLE });
      }
      for (const { name, home, answer } of lost) {
        expect(await connect(home, name)).toMatchObject({ backendId: answer.backendId });
      }
      for (const at of [one, two]) {
        const { backendId, spawned } = await connect(at, known);
        expect([backendId, spawned]).toEqual([before.backendId, false]);
      }

      // In the order of the runbook; callers come back when the last one is ready.
      await Promise.all(on.world.names.map((name) => on.world.dc(name).controller().kill()));
      for (const name of on.world.names) await on.world.dc(name).restartController();
      await on.world.untilInTouch();

      await expectOneHome([...lost, { name: moved, home: three }, { name: known, home: one }]);
    },
    TEST_MS_MAX,
  );
});

describe('a member of etcd that is cut off from the others', () => {
  test('C40 F9 is not believed that a key has no home: its datacenter asks the others', async () => {
    const [home = '', , alone = ''] = on.world.names;
    const member = on.world.names.indexOf(alone);
    on.world.cutMember(alone);
    await waitUntil(async () => !(await on.world.etcd.isHealthy(member)), {
      what: 'a lost majority',
    });
    const names = Array.from({ length: KEYS_PER_HOME }, freshName);
    const there = await Promise.all(
      names.map((name) => waitUntil(() => connect(home, name), { what: 'a majority' })),
    );

    expect(await knownNearby(member, names)).toEqual([]);
    for (const [index, name] of names.entries()) {
      const { backendId } = await waitUntil(() => connect(alone, name));
      expect(backendId).toBe(there[index]?.backendId);
      expect(await homesOf(name)).toEqual([home]);
    }
    const own = freshName();
    expect(await waitUntil(() => connect(alone, own))).toMatchObject({ datacenter: alone });
  });

  test('C40 F9 says nothing at all when its datacenter is cut off with it: neither known homes nor backends suffer', async () => {
    const [home = '', , alone = ''] = on.world.names;
    const [near, far] = [freshName(), freshName()];
    const [atNear, atFar] = [await connect(alone, near), await connect(home, far)];
    await connect(alone, far);
    on.world.cut(alone);
    const names = Array.from({ length: KEYS_PER_HOME }, freshName);
    await Promise.all(names.map((name) => waitUntil(() => connect(home, name))));

    for (const name of names) {
      expect(await refusalOf(connect(alone, name))).toMatchObject({ code: UNREACHABLE });
    }
    expect(await connect(alone, near)).toMatchObject({ backendId: atNear.backendId });
    expect(await connect(home, far)).toMatchObject({ backendId: atFar.backendId });
    const toFar = await connect(alone, far).catch((error: unknown) => leaseholdErrorOf(error));
    expect(toFar).toMatchObject({ details: { datacenter: home } });
    on.world.heal();
    await on.world.untilInTouch();

    for (const name of names) {
      expect(await connect(alone, name)).toMatchObject({ datacenter: home, spawned: false });
      expect(await homesOf(name)).toEqual([home]);
    }
  });
});
