/**
 * What a controller remembers of its database over a restart, in a file of its home: how far it has
 * seen it get, so that a restore does not go unnoticed; the longest TTL that was granted, so that
 * grants are held off long enough after one; and for how long the database's clock was watched.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LIMITS } from '@leasehold/keys-core';
import type { StoreMemory } from '@leasehold/keys-core/postgres';
import { jsonOf } from '@leasehold/service-kit';
import { z } from 'zod';

const FILE = 'witness.json';
/** The only file that earlier versions kept. */
const FORMER_FILE = 'longest-ttl-ms';

const fileSchema = z.object({
  version: z.literal(1),
  longestTtlMs: z.number().int().min(0).max(LIMITS.ttlMsMax),
  stamp: z.string().optional(),
  watch: z
    .object({
      /** Readings of a machine's clock mean nothing after it has booted again. */
      bootId: z.string(),
      atMs: z.number(),
      lowestMs: z.number(),
      highestMs: z.number(),
      watchedSince: z.number(),
    })
    .optional(),
});

export interface MemoryFile {
  readonly remembered: StoreMemory;
  /** Replaces the file whole. Fulfilled when it holds this, or something newer. */
  keep(memory: StoreMemory): Promise<void>;
}

/** `bootId` names the boot of this machine; undefined if it is not known. */
export function openMemoryFile(home: string, bootId: string | undefined): MemoryFile {
  mkdirSync(home, { recursive: true });
  const path = join(home, FILE);
  // One for each process: controllers that share a home must not write into one file at once.
  const draft = `${path}.${String(process.pid)}.new`;
  const remembered = readMemory(home, bootId);
  let { longestTtlMs } = remembered;
  let newest: StoreMemory = remembered;
  let writing = Promise.resolve();
  let queued: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    queued = undefined;
    const { stamp, watch } = newest;
    const text = JSON.stringify({
      ...{ version: 1, longestTtlMs, stamp },
      watch: watch === undefined || bootId === undefined ? undefined : { ...watch, bootId },
    });
    await writeFile(draft, `${text}\n`, { mode: 0o600 });
    await rename(draft, path);
  };
  return {
    remembered,
    keep(memory) {
      newest = memory;
      longestTtlMs = Math.max(longestTtlMs, memory.longestTtlMs);
      if (queued === undefined) {
        queued = writing.then(write);
        writing = queued.catch(() => undefined);
      }
      return queued;
    },
  };
}

function readMemory(home: string, bootId: string | undefined): StoreMemory {
  const text = readText(join(home, FILE));
  if (text === undefined) return { longestTtlMs: readFormer(home) };
  const parsed = fileSchema.safeParse(jsonOf(text));
  // A file that cannot be read may have held the longest TTL that there is.
  if (!parsed.success) return { longestTtlMs: LIMITS.ttlMsMax };
  const { longestTtlMs, stamp, watch } = parsed.data;
  return { longestTtlMs, stamp, watch: watch?.bootId === bootId ? watch : undefined };
}

function readFormer(home: string): number {
  const text = readText(join(home, FORMER_FILE));
  if (text === undefined) return 0;
  const ttlMs = Number(text.trim());
  const isSound = Number.isInteger(ttlMs) && ttlMs > 0 && ttlMs <= LIMITS.ttlMsMax;
  return isSound ? ttlMs : LIMITS.ttlMsMax;
}

/** Undefined if there is no file; empty, and so no JSON, if it cannot be read. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : '';
  }
}
