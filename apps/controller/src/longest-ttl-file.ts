/**
 * The longest TTL that was ever granted, in a file of the controller's home: when the database is
 * restored from a backup that knew of shorter ones only, new grants are still held off long enough.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '@leasehold/keys-core';

const FILE = 'longest-ttl-ms';

/** In milliseconds; 0 when there is no file, and the longest there can be when it cannot be read. */
export function readLongestTtl(home: string): number {
  let text: string;
  try {
    text = readFileSync(join(home, FILE), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    return LIMITS.ttlMsMax;
  }
  const ttlMs = Number(text.trim());
  const isSound = Number.isInteger(ttlMs) && ttlMs > 0 && ttlMs <= LIMITS.ttlMsMax;
  return isSound ? ttlMs : LIMITS.ttlMsMax;
}

/** Replaces the file whole, before anything is granted for so long. */
export function writeLongestTtl(home: string, ttlMs: number): void {
  mkdirSync(home, { recursive: true });
  const path = join(home, FILE);
  writeFileSync(`${path}.new`, `${String(ttlMs)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
