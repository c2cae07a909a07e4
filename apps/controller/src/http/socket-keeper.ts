/**
 * Keeps WebSockets honest: a peer that is gone without a word is noticed by pings, one that floods
 * or does not read what it asked for is closed. Pings are the protocol's own, so that every
 * WebSocket client answers them without knowing.
 *
 * While a peer waits in line for a lease it is pinged more often, and only then: its place in line
 * is kept only for as long as it was heard from within a second.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '@leasehold/keys-core';
import type { WebSocket } from 'ws';

const PING_MS = 2_000;
/** A peer that was silent for this long is gone. */
const SILENCE_MS_MAX = 6_000;
/** Two pings may be answered late before a peer that waits counts as silent. */
const WATCHED_PING_MS = 400;
/** A peer that waits is alive if it was heard from within this time. */
const ALIVE_MS = 1_000;
/** Far above what one busy client sends; a message may carry many calls. */
const MESSAGES_PER_PING_MAX = 100_000;
/** Answers that a peer has not read. */
const UNREAD_BYTES_MAX = 16 * 1_024 * 1_024;

/** So much unread is normal; a subscription that could send more waits. */
const UNREAD_BYTES_EASY = 256 * 1_024;
const UNREAD_POLL_MS = 10;
/** After so many answers in a row a subscription lets others have a turn. */
const ANSWERS_PER_TURN = 64;

const TRY_AGAIN_LATER = 1_013;
const POLICY_VIOLATION = 1_008;

/** What is known of the peer of a socket. */
export interface KeptSocket {
  /** Whether it was heard from within {@link ALIVE_MS}: meaningful while it is watched. */
  isAlive(): boolean;
  /** Pings it often, until the function that it returns is called. */
  watch(): () => void;
  /** Resolves once the peer has read most of what it was sent, or the socket is closing. */
  whenRead(): Promise<void>;
}

/** Watches one socket until it closes. */
export function keepSocket(socket: WebSocket, clock: Clock): KeptSocket {
  let silentMs = 0;
  let messageCount = 0;
  let heardAtMs = clock.nowMs();
  let watcherCount = 0;
  let watchTimer: NodeJS.Timeout | undefined;
  let answerCount = 0;
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
    else if (socket.bufferedAmount > UNREAD_BYTES_MAX) {
      endSocket(socket, TRY_AGAIN_LATER, 'answers are not read');
    } else ping();
    messageCount = 0;
  }, PING_MS);
  timer.unref();
  socket.on('pong', hear);
  socket.on('message', () => {
    hear();
    messageCount += 1;
    if (messageCount > MESSAGES_PER_PING_MAX) {
      endSocket(socket, POLICY_VIOLATION, 'too many messages');
    }
  });
  socket.once('close', () => {
    clearInterval(timer);
    clearInterval(watchTimer);
  });
  return {
    isAlive: () => socket.readyState === socket.OPEN && clock.nowMs() - heardAtMs <= ALIVE_MS,
    watch() {
      watcherCount += 1;
      if (watcherCount === 1) {
        watchTimer = setInterval(ping, WATCHED_PING_MS);
        watchTimer.unref();
      }
      return once(() => {
        watcherCount -= 1;
        if (watcherCount === 0) clearInterval(watchTimer);
      });
    },
    async whenRead() {
      answerCount += 1;
      if (answerCount % ANSWERS_PER_TURN === 0) await nextTurn();
      while (socket.bufferedAmount > UNREAD_BYTES_EASY && socket.readyState === socket.OPEN) {
        await pause(UNREAD_POLL_MS);
      }
    },
  };
}

function once(fn: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    fn();
  };
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
