/**
 * Keeps WebSockets honest: a peer that vanishes silently is noticed by pings. Pings are the
 * protocol's own, so every WebSocket client answers them by itself.
 *
 * While a peer waits in line for a lease it is pinged more often, and only then: its place in line
 * is kept only while it has sent anything within the last second.
 */
import type { Clock } from '@leasehold/keys-core';
import type { WebSocket } from 'ws';
import { once } from '../../once.ts';

const PING_MS = 2_000;
/** A peer that was silent for this long is gone. */
const SILENCE_MS_MAX = 6_000;
/** Two pings may be answered late before a peer that waits counts as silent. */
const WATCHED_PING_MS = 400;
/** A peer that waits is alive if it sent anything within this time. */
const ALIVE_MS = 1_000;

/** What is known of the peer of a socket. */
export interface KeptSocket {
  /** Whether it sent anything within {@link ALIVE_MS}: meaningful while it is watched. */
  isAlive(): boolean;
  /** Pings it often, until the returned function is called. */
  watch(): () => void;
}

/** Watches one socket until it closes. */
export function keepSocket(socket: WebSocket, clock: Clock): KeptSocket {
  const nowMs = readingOfTurn(clock);
  let silentMs = 0;
  let heardAtMs = clock.nowMs();
  let watcherCount = 0;
  let watchTimer: NodeJS.Timeout | undefined;
  const ping = (): void => {
    if (socket.readyState === socket.OPEN) socket.ping();
  };
  const hear = (): void => {
    silentMs = 0;
    heardAtMs = clock.nowMs();
  };
  const timer = setInterval(() => {
    silentMs += PING_MS;
    if (silentMs > SILENCE_MS_MAX) socket.terminate();
    else ping();
  }, PING_MS);
  timer.unref();
  socket.on('pong', hear);
  socket.on('message', () => {
    // The exact time of a message matters only while somebody watches.
    if (watcherCount > 0) heardAtMs = clock.nowMs();
    silentMs = 0;
  });
  socket.once('close', () => {
    clearInterval(timer);
    clearInterval(watchTimer);
  });
  return {
    isAlive: () => socket.readyState === socket.OPEN && nowMs() - heardAtMs <= ALIVE_MS,
    watch() {
      watcherCount += 1;
      if (watcherCount === 1) {
        // A caller that begins to wait has just sent its call.
        heardAtMs = clock.nowMs();
        watchTimer = setInterval(ping, WATCHED_PING_MS);
        watchTimer.unref();
      }
      return once(() => {
        watcherCount -= 1;
        if (watcherCount === 0) clearInterval(watchTimer);
      });
    },
  };
}

/** Reads the clock once in a turn of the event loop, in which thousands of waiters may be checked. */
function readingOfTurn(clock: Clock): () => number {
  let reading: number | undefined;
  return () => {
    if (reading === undefined) {
      reading = clock.nowMs();
      queueMicrotask(() => {
        reading = undefined;
      });
    }
    return reading;
  };
}

/** A close code of the private range: this connection has no token in force, or no longer has one. */
export const TOKEN_ENDED = 4_401;
const CLOSE_MS_MAX = 1_000;

/** Closes a socket politely, and after a second in any case. */
export function endSocket(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState === socket.CLOSED) return;
  // The answer to a close is read even where nothing else is.
  socket.resume();
  socket.close(code, reason);
  const timer = setTimeout(() => socket.terminate(), CLOSE_MS_MAX);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
