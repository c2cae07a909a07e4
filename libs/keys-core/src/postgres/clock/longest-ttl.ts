import type { Sql } from '../sql.ts';

/**
 * The longest TTL that was ever requested for a grant. After a restore new grants are held off for
 * this long, so it must not be forgotten with the part of the database that was lost: it is noted in the
 * database, kept in the memory of every controller, and passed to `keep`, which stores it outside of both.
 */
export interface LongestTtl {
  readonly ms: number;
  /** Notes a longer TTL. Must be awaited before it is granted. */
  note(ttlMs: number): Promise<void>;
}

export function createLongestTtl(options: {
  readonly sql: Sql<'renewals'>;
  /** What an earlier run of this process kept, in milliseconds. */
  readonly rememberedMs: number;
  /** Keeps a longer one outside of the database. */
  readonly keep: (ttlMs: number) => Promise<void>;
}): LongestTtl {
  let longestMs = options.rememberedMs;
  return {
    get ms() {
      return longestMs;
    },
    async note(ttlMs) {
      if (ttlMs <= longestMs) return;
      await noteLongestTtl(options.sql, ttlMs);
      await options.keep(ttlMs);
      longestMs = Math.max(longestMs, ttlMs);
    },
  };
}

/** Raises the value in the database, if it is less. */
export async function noteLongestTtl(sql: Sql<'renewals'>, ttlMs: number): Promise<void> {
  await sql.$queryRaw`
    update database_epoch set longest_ttl_ms = ${ttlMs}::int
    where longest_ttl_ms < ${ttlMs}::int
    returning epoch`;
}
