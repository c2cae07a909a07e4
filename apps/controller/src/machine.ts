import { randomInt, randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Clock, IdSource } from '@leasehold/keys-core';

/** How late a wait of this process may end; deadlines of holders are not kept here. */
const TICK_MS = 50;

/** This machine's time since boot, suspend included. */
export function machineClock(): Clock {
  let lastMs = 0;
  const nowMs = (): number => (lastMs = Math.max(lastMs, os.uptime() * 1_000));
  const waiting = new Map<() => void, number>();
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    const tickMs = nowMs();
    for (const [fn, atMs] of [...waiting]) {
      if (tickMs < atMs) continue;
      waiting.delete(fn);
      fn();
    }
    if (waiting.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  }

  return {
    nowMs,
    at(atMs, fn) {
      const once = (): void => {
        fn();
      };
      waiting.set(once, atMs);
      timer ??= setInterval(tick, TICK_MS);
      return () => {
        waiting.delete(once);
      };
    },
  };
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** Random numbers of the operating system. */
export const machineIds: IdSource = {
  uuid: () => randomUUID(),
  alphanumeric: (length) =>
    Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join(''),
  random: () => Math.random(),
};
