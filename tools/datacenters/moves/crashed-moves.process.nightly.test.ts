import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { LeaseError, type Caller } from '@leasehold/keys-core';
import { createTestDatabase, startEtcd, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aDrone } from '../../../libs/keys-core/src/testing/fleet-fixture.ts';
import type { MoverSaid, MoverTask } from './mover-process.ts';
import type { DatacenterPlace } from './one-datacenter.ts';
import {
  activeHomes,
  connect,
  freshControllers,
  NAMES,
  type Connected,
  type Controllers,
  type Name,
} from './controllers.ts';
import { answerChild } from './peer-channel.ts';

const OPERATOR: Caller = { principal: 'o', actor: 'operator', role: 'operator', namespaces: null };
const AGE_MS = 120_000;

let etcd: TestEtcd;
let places: DatacenterPlace[];
const enders: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  etcd = await startEtcd();
  enders.push(() => etcd.stop());
  places = await Promise.all(
    NAMES.map(async (name) => {
      const database = await createTestDatabase();
      enders.push(() => database.drop());
      return { name, databaseUrl: database.url, etcd: etcd.endpoints };
    }),
  );
  const { all, close } = await freshControllers(places);
  for (const name of NAMES) {
    const { store } = all[name];
    await aDrone(store.vital, { droneId: `drone-${name}`, datacenter: name, capacity: 1_000 });
  }
  await close();
});

afterAll(async () => {
  while (enders.length > 0) await enders.pop()?.();
});

/** A key of dc1 whose holder is gone. @returns its newest token. */
async function expiredKey(name: string): Promise<bigint> {
  const { all, close } = await freshControllers(places);
  const { fencingToken } = await connect(all, 'dc1', name);
  await all.dc1.store.general.$executeRaw`
    update lease
    set granted_at = granted_at - ${AGE_MS} * interval '1 millisecond',
      renewed_at = renewed_at - ${AGE_MS} * interval '1 millisecond',
      expires_at = expires_at - ${AGE_MS} * interval '1 millisecond',
      stops_by = stops_by - ${AGE_MS} * interval '1 millisecond'
    where name = ${name}`;
  // It expired while the database clocks were watched.
  for (const { store } of Object.values(all)) {
    await store.general.$executeRaw`update database_epoch set settled_until = clock_timestamp()`;
  }
  await close();
  return fencingToken;
}

/** Moves a key from dc1 to dc2 in a process of its own. @returns undefined when that was killed. */
async function moveInProcess(
  name: string,
  killAt: MoverTask['killAt'],
): Promise<MoverSaid | undefined> {
  const { all, close } = await freshControllers(places);
  const [place] = places;
  if (place === undefined) throw new Error('there are no datacenters');
  const task: MoverTask = {
    place,
    others: ['dc2', 'dc3'],
    key: ['', name],
    toDatacenter: 'dc2',
    killAt,
  };
  const child = fork(path.join(import.meta.dirname, 'mover-process.ts'), [JSON.stringify(task)], {
    execArgv: ['--conditions=@leasehold/source', '--import', 'tsx'],
  });
  let said: MoverSaid | undefined;
  child.on('message', (message: MoverSaid | { readonly type: 'ask' }) => {
    if (message.type === 'moved') said = message;
  });
  answerChild(child, (datacenter) => all[datacenter as Name].service);
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  expect(signal).toBe(killAt === null ? null : 'SIGKILL');
  await close();
  return said;
}

/** Asks for the move again. @returns what is wrong with the answer. */
async function moveAgain(all: Controllers['all'], name: string): Promise<string[]> {
  const input = { key: ['', name], toDatacenter: 'dc2', reason: 'once more' };
  try {
    await all.dc3.service.move(input, OPERATOR);
  } catch (error) {
    // It was finished before: then it is no fault that the key is already there.
    const isThere = error instanceof LeaseError && error.code === 'reservation.same_datacenter';
    if (!isThere) return [`the move again: ${String(error)}`];
  }
  const homes = await activeHomes(all, name);
  return homes.join() === 'dc2' ? [] : [`moved again, and active in ${homes.join()}`];
}

/** Connects through every datacenter in turn. @returns what is wrong with the answers. */
async function connectEverywhere(
  all: Controllers['all'],
  name: string,
  of: { readonly token: bigint; readonly turn: number },
): Promise<string[]> {
  const answers: Connected[] = [];
  for (let place = 0; place < NAMES.length; place += 1) {
    const at = NAMES[(place + of.turn) % NAMES.length] ?? 'dc1';
    answers.push(await connect(all, at, name));
  }
  const homes = (await activeHomes(all, name)).join();
  return [
    ...(new Set(answers.map(({ backendId }) => backendId)).size === 1 ? [] : ['two backends']),
    ...(answers.every(({ fencingToken }) => fencingToken > of.token) ? [] : ['an old token']),
    ...(answers.every(({ datacenter }) => datacenter === homes) ? [] : [`active in ${homes}`]),
  ];
}

/** What is wrong with a key after a move of it was killed; an empty list when nothing is. */
async function faultsAfter(
  name: string,
  of: { readonly token: bigint; readonly finish: 'connect' | 'move'; readonly turn: number },
): Promise<string[]> {
  const { all, close } = await freshControllers(places);
  const isDoubled = (await activeHomes(all, name)).length > 1;
  const faults = [
    ...(isDoubled ? ['two homes at once'] : []),
    ...(of.finish === 'move' ? await moveAgain(all, name) : []),
    ...(await connectEverywhere(all, name, of)),
  ];
  await close();
  return faults;
}

/** A process is started for each step, and killed at it. */
const ALL_STEPS_MS_MAX = 180_000;

test(
  'C61, F3: a move that is killed at any step leaves one home, which all connect to',
  async () => {
    await expiredKey('whole');
    const calls = (await moveInProcess('whole', null))?.calls ?? [];
    expect(calls).toContain('putPointer');
    expect(calls).toContain('status at dc2');

    const found: string[] = [];
    for (const [call, what] of calls.entries()) {
      for (const when of ['before', 'after'] as const) {
        const name = `killed-${when}-${String(call)}`;
        const token = await expiredKey(name);
        await moveInProcess(name, { call, when });
        const finish = when === 'before' ? 'connect' : 'move';
        const faults = await faultsAfter(name, { token, finish, turn: call });
        found.push(...faults.map((fault) => `${when} ${what} (${String(call)}): ${fault}`));
      }
    }

    expect(found).toEqual([]);
  },
  ALL_STEPS_MS_MAX,
);
