import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { openRoomStore, type RoomStore } from '../store.mjs';
import { openDocument } from './document.mjs';
import { createRoom, NOT_AN_EDIT, NOT_STORED, REPLACED } from './room.mjs';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'lh-document-'));
  return () => rm(folder, { recursive: true, maxRetries: 10 });
});

const storeOf = (): RoomStore<readonly string[]> => openRoomStore<readonly string[]>(folder, []);

/** A run of the room, as a drone would start it. @returns its address. */
async function startRoom(fencingToken: string, store = storeOf()): Promise<string> {
  const room = createRoom({ keyId: 'minutes', fencingToken, store });
  await new Promise<void>((resolve) => room.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    room.close();
    room.closeAllConnections();
  });
  return `127.0.0.1:${String((room.address() as AddressInfo).port)}`;
}

/** An editor who follows wherever `connect` leads, and every state of the document that it has seen. */
function editor(connect: () => string) {
  const seen: (readonly string[])[] = [];
  const document = openDocument({
    connect: () => Promise.resolve({ address: connect() }),
    onChange: (lines) => seen.push(lines),
    onProblem: () => undefined,
  });
  onTestFinished(() => document.close());
  const sees = (...lines: string[]): Promise<unknown> =>
    waitUntil(() => JSON.stringify(seen.at(-1)) === JSON.stringify(lines), {
      what: `the document ${lines.join(', ')}`,
    });
  return { ...document, seen, sees };
}

/** The code with which a room closes a connection that sends this. */
async function closeCodeAfter(address: string, message: string): Promise<number> {
  const socket = new WebSocket(`ws://${address}`);
  onTestFinished(() => socket.terminate());
  socket.on('open', () => socket.send(message));
  return new Promise((resolve) => socket.on('close', resolve));
}

describe('a document that many edit', () => {
  test('all editors see the same lines in the same order, and who comes later sees them too', async () => {
    const address = await startRoom('1');
    const editors = [editor(() => address), editor(() => address)] as const;
    await Promise.all(editors.map((one) => one.sees()));

    for (let round = 0; round < 10; round += 1) {
      for (const [index, one] of editors.entries()) one.add(`${String(index)}-${String(round)}`);
    }
    await waitUntil(() => editors.every(({ seen }) => seen.at(-1)?.length === 20));
    const late = editor(() => address);
    await waitUntil(() => late.seen.length > 0);

    const [first] = editors;
    expect(editors[1].seen).toEqual(first.seen);
    expect(late.seen).toEqual([first.seen.at(-1)]);
    for (const index of ['0', '1']) {
      const own = first.seen.at(-1)?.filter((line) => line.startsWith(`${index}-`));
      expect(own).toEqual(Array.from({ length: 10 }, (_, round) => `${index}-${String(round)}`));
    }
  });

  test('a run that was replaced shows nobody an edit, and its editors go on with the next run', async () => {
    const former = await startRoom('1');
    let address = former;
    const one = editor(() => address);
    await one.sees();
    one.add('before');
    await one.sees('before');
    address = await startRoom('2');
    const other = editor(() => address);
    await other.sees('before');
    other.add('by the next run');
    await other.sees('before', 'by the next run');

    one.add('too late');

    await one.sees('before', 'by the next run');
    one.add('after');
    await other.sees('before', 'by the next run', 'after');
    expect(one.seen.flat()).not.toContain('too late');
  });

  test('a run that was replaced closes its connections with 4409', async () => {
    const former = await startRoom('1');
    await storeOf().update('minutes', '2', (lines) => lines);

    expect(await closeCodeAfter(former, '{"add":"late"}')).toBe(REPLACED);
    expect((await storeOf().read('minutes'))?.value).toEqual([]);
  });

  test.each(['no JSON', '{}', '{"add":7}', 'null', '[]'])(
    'a message that is not an edit closes its connection, and changes nothing: %s',
    async (message) => {
      const address = await startRoom('1');
      const other = editor(() => address);
      await other.sees();

      expect(await closeCodeAfter(address, message)).toBe(NOT_AN_EDIT);
      other.add('still here');
      await other.sees('still here');
    },
  );

  test('an edit that cannot be stored is shown to nobody, and its author is told', async () => {
    const store = storeOf();
    const full = { ...store, update: () => Promise.reject(new Error('the disk is full')) };
    const address = await startRoom('1', full);
    const reader = editor(() => address);
    await reader.sees();

    expect(await closeCodeAfter(address, '{"add":"lost"}')).toBe(NOT_STORED);
    expect(reader.seen.flat()).toEqual([]);
  });
});
