/**
 * Keeps WebSockets honest: a peer that is gone without a word is noticed by pings, one that floods
 * or does not read what it asked for is closed. Pings are the protocol's own, so that every
 * WebSocket client answers them without knowing.
 */
import type { WebSocket } from 'ws';

const PING_MS = 2_000;
/** A peer that was silent for this long is gone. */
const SILENCE_MS_MAX = 6_000;
/** Far above what one busy client sends; a message may carry many calls. */
const MESSAGES_PER_PING_MAX = 100_000;
/** Answers that a peer has not read. */
const UNREAD_BYTES_MAX = 16 * 1_024 * 1_024;

const TRY_AGAIN_LATER = 1_013;
const POLICY_VIOLATION = 1_008;

/** Watches one socket until it closes. */
export function keepSocket(socket: WebSocket): void {
  let silentMs = 0;
  let messageCount = 0;
  const timer = setInterval(() => {
    silentMs += PING_MS;
    if (silentMs > SILENCE_MS_MAX) socket.terminate();
    else if (socket.bufferedAmount > UNREAD_BYTES_MAX) {
      endSocket(socket, TRY_AGAIN_LATER, 'answers are not read');
    } else if (socket.readyState === socket.OPEN) socket.ping();
    messageCount = 0;
  }, PING_MS);
  timer.unref();
  socket.on('pong', () => {
    silentMs = 0;
  });
  socket.on('message', () => {
    silentMs = 0;
    messageCount += 1;
    if (messageCount > MESSAGES_PER_PING_MAX) {
      endSocket(socket, POLICY_VIOLATION, 'too many messages');
    }
  });
  socket.once('close', () => {
    clearInterval(timer);
  });
}

const CLOSE_MS_MAX = 1_000;

/** Closes a socket politely, and after a second in any case. */
export function endSocket(socket: WebSocket, code: number, reason: string): void {
  socket.close(code, reason);
  const timer = setTimeout(() => {
    socket.terminate();
  }, CLOSE_MS_MAX);
  timer.unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}
