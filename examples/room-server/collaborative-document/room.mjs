import { createServer } from 'node:http';
import * as decoding from 'lib0/decoding';
import * as encoding from 'lib0/encoding';
import { WebSocketServer } from 'ws';
import {
  applyAwarenessUpdate,
  Awareness,
  encodeAwarenessUpdate,
  removeAwarenessStates,
} from 'y-protocols/awareness';
import { messageYjsSyncStep1, readSyncStep1, writeSyncStep1, writeUpdate } from 'y-protocols/sync';
import * as Y from 'yjs';

/** The kinds of messages of `y-websocket`. */
const SYNC = 0;
const AWARENESS = 1;
/** The largest message of a browser: a document that was edited offline for long. */
const MESSAGE_BYTES_MAX = 4 * 1_024 * 1_024;

/**
 * A room: the one process in which everybody meets who edits a document. It speaks the protocol of `y-websocket`.
 *
 * Each change is stored before anybody else sees it. The store compares the fencing token in the same step, so a room
 * that was replaced can neither store a change nor show it: it ends.
 *
 * @param {{
 *   keyId: string,
 *   fencingToken: string,
 *   store: import('../store.mjs').RoomStore<string>,
 *   page: (user: string) => string,
 *   script: string,
 *   onReplaced: () => void,
 * }} of `store` has the document as base64. `onReplaced` is called when the store has refused the token.
 */
export async function createRoom({ keyId, fencingToken, store, page, script, onReplaced }) {
  const doc = new Y.Doc();
  const awareness = new Awareness(doc);
  awareness.setLocalState(null);
  /** @type {Set<import('ws').WebSocket>} */
  const sockets = new Set();
  /** What was received and is not stored yet. @type {Uint8Array[]} */
  let unstored = [];
  /** @type {Promise<void> | undefined} */
  let storing;

  const kept = await store.read(keyId);
  if (kept !== null && kept.value !== '') {
    Y.applyUpdate(doc, Buffer.from(kept.value, 'base64'));
  }

  /** @param {Uint8Array} message */
  function sendAll(message) {
    for (const socket of sockets) socket.send(message);
  }

  /** Stores what has come until now as one version, then shows it to everybody. */
  async function storeAll() {
    while (unstored.length > 0) {
      const update = Y.mergeUpdates(unstored);
      unstored = [];
      const outcome = await store.update(keyId, fencingToken, (before) => {
        const all = before === '' ? [] : [Buffer.from(before, 'base64')];
        return Buffer.from(Y.mergeUpdates([...all, update])).toString('base64');
      });
      if (outcome.outcome === 'refused') return onReplaced();
      Y.applyUpdate(doc, update);
      sendAll(messageOf(SYNC, (encoder) => writeUpdate(encoder, update)));
    }
  }

  /** @param {Uint8Array} update of the document, from a browser */
  function take(update) {
    unstored.push(update);
    storing ??= storeAll()
      .catch((error) => {
        console.error(error);
        onReplaced();
      })
      .finally(() => {
        storing = undefined;
      });
  }

  const http = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://room');
    if (pathname === '/') {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(page(String(request.headers['x-leasehold-user'] ?? 'somebody')));
    } else if (pathname === '/page.js') {
      response.setHeader('content-type', 'text/javascript; charset=utf-8');
      response.end(script);
    } else {
      response.statusCode = 404;
      response.end('The document is at /.\n');
    }
  });

  const server = new WebSocketServer({ server: http, maxPayload: MESSAGE_BYTES_MAX });
  server.on('connection', (socket) => {
    sockets.add(socket);
    /** Whom this browser has said to be. @type {Set<number>} */
    const clients = new Set();
    socket.binaryType = 'arraybuffer';
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      sockets.delete(socket);
      removeAwarenessStates(awareness, [...clients], socket);
    });
    socket.on('message', (data) => {
      try {
        receive(new Uint8Array(/** @type {ArrayBuffer} */ (data)), socket, clients);
      } catch (error) {
        console.error('not a message of y-websocket:', String(error));
        socket.close(1002);
      }
    });
    socket.send(messageOf(SYNC, (encoder) => writeSyncStep1(encoder, doc)));
  });

  /** @param {Uint8Array} message @param {import('ws').WebSocket} socket @param {Set<number>} clients */
  function receive(message, socket, clients) {
    const decoder = decoding.createDecoder(message);
    const kind = decoding.readVarUint(decoder);
    if (kind === AWARENESS) {
      const update = decoding.readVarUint8Array(decoder);
      applyAwarenessUpdate(awareness, update, clients);
      return;
    }
    if (kind !== SYNC) return;
    if (decoding.readVarUint(decoder) !== messageYjsSyncStep1) {
      take(decoding.readVarUint8Array(decoder));
      return;
    }
    socket.send(messageOf(SYNC, (encoder) => readSyncStep1(decoder, encoder, doc)));
  }

  /**
   * @param {{ added: number[], updated: number[], removed: number[] }} changed
   * @param {unknown} clients those of the browser that has said it
   */
  function tellWhoIsHere({ added, updated, removed }, clients) {
    if (clients instanceof Set) for (const id of added) clients.add(id);
    const update = encodeAwarenessUpdate(awareness, [...added, ...updated, ...removed]);
    sendAll(messageOf(AWARENESS, (encoder) => encoding.writeVarUint8Array(encoder, update)));
  }
  awareness.on('update', tellWhoIsHere);

  return {
    http,
    /** Stores what has come, and closes every connection: browsers look for the next room at once. */
    async close() {
      await storing;
      for (const socket of sockets) socket.close(1012);
      http.close();
    },
  };
}

/**
 * A message of `y-websocket`: its kind, and what `write` writes.
 * @param {number} kind
 * @param {(encoder: encoding.Encoder) => void} write
 */
function messageOf(kind, write) {
  const encoder = encoding.createEncoder();
  encoding.writeVarUint(encoder, kind);
  write(encoder);
  return encoding.toUint8Array(encoder);
}
