import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createRoom } from './room.mjs';
import { openRoomStore } from './store.mjs';

let directory: string;
const closers: (() => void)[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'room-store-'));
});

afterEach(async () => {
  for (const close of closers.splice(0)) close();
  await rm(directory, { recursive: true, maxRetries: 10 });
});

/** A run of a room whose key is called `k`, as a drone would start it. @returns its base URL. */
async function startRoom(fencingToken: string, keyId = 'id-of-k'): Promise<string> {
  const room = createRoom({
    key: 'k',
    keyId,
    fencingToken,
    backendId: `backend-${fencingToken}`,
    store: openRoomStore(directory, 0),
  });
  await new Promise<void>((resolve) => room.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    room.close();
    room.closeAllConnections();
  });
  return `http://127.0.0.1:${String((room.address() as AddressInfo).port)}`;
}

async function addOne(url: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}/counter`, { method: 'PUT' });
  return { status: response.status, body: await response.json() };
}

describe('room store', () => {
  test('a write with a smaller token than the store has seen is refused and changes nothing', async () => {
    const store = openRoomStore(directory, 0);
    await store.update('k', '8', () => 80);

    const outcome = await store.update('k', '7', () => 70);

    expect(outcome).toEqual({ outcome: 'refused', newestToken: '8' });
    expect(await store.read('k')).toMatchObject({ value: 80, fencingToken: '8' });
  });

  test('tokens are compared as numbers, beyond what a double holds', async () => {
    const store = openRoomStore(directory, 0);
    await store.update('k', '9007199254740993', () => 1);

    const smaller = await store.update('k', '9007199254740992', () => 2);
    const larger = await store.update('k', '10000000000000000', () => 3);

    expect(smaller.outcome).toBe('refused');
    expect(larger.outcome).toBe('written');
  });

  test('no update is lost when many writers race', async () => {
    const stores = Array.from({ length: 20 }, () => openRoomStore(directory, 0));

    await Promise.all(stores.map((store) => store.update('k', '1', (value) => value + 1)));

    expect(await stores[0]?.read('k')).toMatchObject({ value: 20, version: 20 });
  });

  test('an id that looks like a path touches no file outside of the store', async () => {
    const store = openRoomStore(join(directory, 'inner'), 0);

    await store.update('../outside', '1', () => 5);

    expect(await store.read('../outside')).toMatchObject({ value: 5 });
    expect(await openRoomStore(directory, 0).read('outside')).toBeNull();
  });
});

describe('room', () => {
  test('answers who it is and counts its requests', async () => {
    const url = await startRoom('5');

    await fetch(url);
    const second = await fetch(url);

    expect(await second.json()).toEqual({
      key: 'k',
      fencingToken: '5',
      backendId: 'backend-5',
      requests: 2,
    });
  });

  test('two keys of one name in two namespaces are two rooms', async () => {
    const ofTeamA = await startRoom('5', 'id-of-team-a');
    const ofTeamB = await startRoom('9', 'id-of-team-b');
    await addOne(ofTeamA);

    expect((await addOne(ofTeamB)).body).toMatchObject({ value: 1, fencingToken: '9' });
    expect((await addOne(ofTeamA)).body).toMatchObject({ value: 2, fencingToken: '5' });
  });

  test('a run that was replaced cannot write any more, and its successor goes on from its value', async () => {
    const former = await startRoom('5');
    await addOne(former);
    const successor = await startRoom('6');
    await addOne(successor);

    const late = await addOne(former);

    expect(late.status).toBe(409);
    expect(late.body).toMatchObject({ fencingToken: '5', newestToken: '6' });
    expect((await addOne(successor)).body).toMatchObject({ value: 3, fencingToken: '6' });
  });
});
