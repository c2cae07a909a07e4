/** What is done for requests while they are held for a backend. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { hasBody } from './target.ts';

/** What a request with a body keeps in memory while it is held, beyond its head: what Node and the system read ahead. */
const HELD_BODY_BYTES = 131_072;
/** What is read of a WebSocket while it is held: its client may send before it is answered, and rarely does. */
const HELD_HEAD_BYTES = 16_384;

/** What a request keeps in memory, in bytes. */
export function heldBytesOf(request: IncomingMessage): number {
  const { rawHeaders, url = '' } = request;
  const head = rawHeaders.reduce((sum, text) => sum + text.length, url.length);
  if (request.headers.upgrade !== undefined) return head + HELD_HEAD_BYTES;
  return head + (hasBody(request) ? HELD_BODY_BYTES : 0);
}

/**
 * Reads what the client of a WebSocket sends meanwhile: only of a socket that is read it is noticed that its client has
 * left. @returns ends that.
 */
export function readWhileHeld(arrived: { head: Buffer }, socket: Socket): () => void {
  const onData = (piece: Buffer): void => {
    arrived.head = Buffer.concat([arrived.head, piece]);
    if (arrived.head.length >= HELD_HEAD_BYTES) socket.pause();
  };
  const onEnd = (): void => void socket.destroy();
  socket.on('data', onData);
  socket.once('end', onEnd);
  if (arrived.head.length < HELD_HEAD_BYTES) socket.resume();
  return () => {
    socket.pause();
    socket.off('data', onData);
    socket.off('end', onEnd);
  };
}
