import { randomInt, randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Clock, IdSource } from '@leasehold/keys-core';

/** This machine's time since boot, for the few statements that a command makes by itself. */
export function bootClock(): Clock {
  return {
    nowMs: () => os.uptime() * 1_000,
    at(atMs, fn) {
      const timer = setTimeout(fn, Math.max(0, atMs - os.uptime() * 1_000));
      timer.unref();
      return () => {
        clearTimeout(timer);
      };
    },
  };
}
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
export function systemIds(): IdSource {
  return {
    uuid: () => randomUUID(),
    alphanumeric: (length) =>
      Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join(''),
    random: () => Math.random(),
  };
}
