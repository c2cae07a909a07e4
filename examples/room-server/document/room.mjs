import { createServer } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';

/** An edit may be so long, in bytes. */
const EDIT_BYTES_MAX = 16_384;
/** The close code for clients of a room that has been replaced: connect to the key again. */
export const REPLACED = 4_409;
/** The close code for a message that is not an edit. */
export const NOT_AN_EDIT = 4_400;
/** The close code for an edit that could not be stored. It may be sent again. */
export const NOT_STORED = 1_011;

/**
 * A document that many people edit at once. It is the backend of one key, so all of them meet in one
 * process, which decides the order of their edits.
 *
 * A client connects by WebSocket, and receives `{ "kind": "document", "lines": […] }`. It sends
 * `{ "add": "a line" }`. Once the line is stored, every client receives `{ "kind": "line", "number", "text" }`.
 * An edit is stored before anybody sees it, under the fencing token of this run. A run that was paused and
 * replaced is refused by the store; it shows nobody the edit, and closes its connections with 4409.
 *
 * `GET /` answers 200: the room is ready.
 *
 * @param {{
 *   keyId: string,
 *   fencingToken: string,
 *   store: import('../store.mjs').RoomStore<readonly string[]>,
 * }} of
 * @returns {import('node:http').Server}
 */
export function createRoom({ keyId, fencingToken, store }) {
  const server = createServer((_request, response) => {
    response.end('a room: connect by WebSocket\n');
  });
  const sockets = new WebSocketServer({ server, maxPayload: EDIT_BYTES_MAX });
  /** Edits and new clients one after the other: each client sees each line once, in the same order. */
  let queue = Promise.resolve();
  /** @type {Set<WebSocket>} those that have received the document */
  const readers = new Set();

  /**
   * @param {WebSocket} author
   * @param {() => Promise<void>} step
   */
  function inTurn(author, step) {
    queue = queue.then(step).catch((error) => {
      console.error(error);
      author.close(NOT_STORED, 'the edit was not stored');
    });
  }

  /** @param {WebSocket} reader */
  async function welcome(reader) {
    const document = await store.read(keyId);
    send(reader, { kind: 'document', lines: document?.value ?? [] });
    if (reader.readyState === WebSocket.OPEN) readers.add(reader);
  }

  /** @param {string} text */
  async function add(text) {
    const written = await store.update(keyId, fencingToken, (lines) => [...lines, text]);
    if (written.outcome === 'refused') {
      for (const client of sockets.clients) client.close(REPLACED, 'this run was replaced');
      return;
    }
    const number = written.record.value.length;
    for (const reader of readers) send(reader, { kind: 'line', number, text });
  }

  sockets.on('connection', (socket) => {
    socket.on('error', () => undefined); // it closes, too
    socket.on('close', () => readers.delete(socket));
    socket.on('message', (message) => {
      const text = textOf(String(message));
      if (text === undefined) socket.close(NOT_AN_EDIT, 'send { "add": "a line" }');
      else inTurn(socket, () => add(text));
    });
    inTurn(socket, () => welcome(socket));
  });
  return server;
}

/**
 * @param {WebSocket} socket
 * @param {unknown} message
 */
function send(socket, message) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/**
 * @param {string} message
 * @returns {string | undefined} undefined when it is not an edit
 */
function textOf(message) {
  try {
    const { add } = JSON.parse(message);
    return typeof add === 'string' ? add : undefined;
  } catch {
    return undefined;
  }
}
