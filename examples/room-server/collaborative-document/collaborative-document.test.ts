import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { WebsocketProvider } from 'y-websocket';
import * as Y from 'yjs';
import { openRoomStore } from '../store.mjs';
import { createRoom } from './room.mjs';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'lh-document-'));
  return () => rm(folder, { recursive: true, maxRetries: 10 });
});

/** A run of the room, as a drone would start it. */
async function startRoom(fencingToken: string, port = 0) {
  let isReplaced = false;
  const room = await createRoom({
    keyId: 'minutes',
    fencingToken,
    store: openRoomStore(folder, ''),
    page: () => '',
    script: '',
    onReplaced: () => {
      isReplaced = true;
    },
  });
  await new Promise<void>((resolve) => room.http.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => room.close());
  return {
    port: (room.http.address() as AddressInfo).port,
    isReplaced: () => isReplaced,
    close: () => room.close(),
  };
}

/** A browser with the page open. */
function openPage(port: number) {
  const doc = new Y.Doc();
  const provider = new WebsocketProvider(`ws://127.0.0.1:${String(port)}`, 'socket', doc, {
    WebSocketPolyfill: WebSocket as unknown as typeof globalThis.WebSocket,
    disableBc: true,
    maxBackoffTime: 50,
  });
  onTestFinished(() => provider.destroy());
  const text = doc.getText('text');
  return {
    provider,
    type: (at: number, what: string): void => text.insert(at, what),
    /** The text, once it is this one. */
    async shows(what: string): Promise<string> {
      await waitUntil(() => provider.synced && text.toJSON() === what, {
        what: `the text ${what}`,
      });
      return text.toJSON();
    },
  };
}

test('everybody sees what anybody types, and who comes later sees it too', async () => {
  const { port } = await startRoom('1');
  const [one, other] = [openPage(port), openPage(port)];
  await Promise.all([one.shows(''), other.shows('')]);

  one.type(0, 'hello ');
  await other.shows('hello ');
  other.type(6, 'world');

  expect(await one.shows('hello world')).toBe('hello world');
  expect(await openPage(port).shows('hello world')).toBe('hello world');
});

test('what is typed while no room can be reached is in the next room', async () => {
  const room = await startRoom('1');
  const [one, other] = [openPage(room.port), openPage(room.port)];
  one.type(0, 'before ');
  await other.shows('before ');

  await room.close();
  await waitUntil(() => !one.provider.wsconnected && !other.provider.wsconnected);
  one.type(7, 'between ');
  await startRoom('2', room.port);

  await other.shows('before between ');
  other.type(15, 'after');
  expect(await one.shows('before between after')).toBe('before between after');
});

test('a room that was replaced shows nothing that it could not store', async () => {
  const old = await startRoom('1');
  const [one, other] = [openPage(old.port), openPage(old.port)];
  one.type(0, 'kept');
  await other.shows('kept');
  const store = openRoomStore(folder, '');
  await store.update('minutes', '2', (value) => value);

  one.type(4, ' and lost');
  await waitUntil(old.isReplaced);

  expect(await other.shows('kept')).toBe('kept');
  const { port } = await startRoom('2');
  expect(await openPage(port).shows('kept')).toBe('kept');
});

test('a message outside of the protocol closes the connection, and the room goes on', async () => {
  const { port } = await startRoom('1');
  const page = openPage(port);
  const stranger = new WebSocket(`ws://127.0.0.1:${String(port)}/socket`);
  stranger.on('open', () => stranger.send(Buffer.from([0, 1])));

  const code = await new Promise((resolve) => stranger.on('close', resolve));

  expect(code).toBe(1_002);
  page.type(0, 'still here');
  expect(await openPage(port).shows('still here')).toBe('still here');
});
