/** What a process knows about the database, and keeps outside of it. */
import type { Clock, IdSource } from '../../kernel/clock.ts';
import type { ClockJumpNotes } from '../clock/clock-jumps.ts';
import { createClockWatch, type ClockWatch, type WatchMemory } from '../clock/clock-watch.ts';
import type { KernelStore } from '../kernel-store.ts';
import { createLongestTtl } from './epoch.ts';
import type { Sql } from '../sql.ts';
import { createDatabaseWitness, type WitnessNotice } from './database-witness.ts';

/**
 * What a process keeps outside of the database for its next start: how far it has seen the database,
 * so that a restore does not go unnoticed.
 */
export interface StoreMemory {
  /** The longest TTL that was ever granted, in milliseconds; 0 when that is not known. */
  readonly longestTtlMs: number;
  /** How far the database was seen, see `DatabaseWitness.stamp`. */
  readonly stamp?: string | undefined;
  /** The watch of the database's clock; left out when the machine has rebooted since. */
  readonly watch?: WatchMemory | undefined;
}

export interface MemoryOptions {
  /** What `keep` was given in an earlier run. */
  readonly remembered?: StoreMemory | undefined;
  /**
   * Stores the memory outside of the database. Called about once a second, and before a grant with a
   * longer TTL than any before.
   */
  readonly keep?: ((memory: StoreMemory) => Promise<void>) | undefined;
  /** Watches the database's clock; by default a new one. */
  readonly clockWatch?: ClockWatch | undefined;
  /** Called when grants are held off, and with other findings about the database. */
  readonly onWitness?: ((notice: WitnessNotice) => void) | undefined;
}

interface MemoryDeps {
  readonly sql: Sql<'renewals'>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly onJump: (jumpMs: number) => void;
  /** Writes down the jumps that were met; without it nobody can see them later. */
  readonly jumpNotes?: ClockJumpNotes | undefined;
  readonly onError: (error: unknown) => void;
}

export function openMemory(
  { remembered, keep, clockWatch: givenWatch, onWitness }: MemoryOptions,
  { sql, clock, ids, onJump, jumpNotes, onError }: MemoryDeps,
): Pick<KernelStore, 'clockWatch' | 'longestTtl' | 'witness'> {
  const clockWatch =
    givenWatch ??
    createClockWatch({
      remembered: remembered?.watch,
      onJump(jumpMs) {
        onJump(jumpMs);
        jumpNotes?.add(jumpMs);
      },
    });
  const memory = (longestTtlMs: number): StoreMemory => ({
    longestTtlMs,
    stamp: witness.stamp() ?? remembered?.stamp,
    watch: clockWatch.memory,
  });
  const longestTtl = createLongestTtl({
    sql,
    rememberedMs: remembered?.longestTtlMs ?? 0,
    keep: async (ttlMs) => keep?.(memory(ttlMs)),
  });
  const witness = createDatabaseWitness({
    sql,
    clock,
    ids,
    clockWatch,
    longestTtl,
    remembered: remembered?.stamp,
    onNotice: onWitness ?? ((): void => undefined),
    onLook: () => {
      // Not awaited: the next one follows within seconds.
      keep?.(memory(longestTtl.ms)).catch(onError);
      jumpNotes?.flush().catch(onError);
    },
  });
  return { clockWatch, longestTtl, witness };
}
