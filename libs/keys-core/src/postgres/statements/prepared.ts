/**
 * Statements that are planned once for each connection.
 *
 * The grant statement took twice as long to plan as to carry out. Its plan is the same each time: every
 * row is one probe of an index, however large the table is and however many are asked for. So it is
 * made once, for parameters of any size, and never by reading a whole table, which is what the planner
 * would choose for a table that was empty when it looked.
 */
import { createHash } from 'node:crypto';

/** What a pool is opened with beside its timeouts. */
export interface PreparedOptions {
  /** Start-up settings of its connections. */
  readonly settings: readonly string[];
  readonly naming: { readonly statementNameGenerator?: (query: { sql: string }) => string };
}

/**
 * Transitions skip rows that are locked. What they may have to wait for is a row that somebody else is
 * just making; after this long the others of the batch go on without it.
 */
const LOCK_TIMEOUT_MS = 1_000;

/** What transitions are carried out with, planned once or each time. */
export const TRANSITION_SETTINGS = {
  enable_seqscan: 'off',
  lock_timeout: String(LOCK_TIMEOUT_MS),
} as const;

/** Every statement is planned when it is sent, for the very parameters that it has. */
export const UNPREPARED: PreparedOptions = { settings: [], naming: {} };

/**
 * Prepared statements belong to a session. Poolers that hand out sessions by the transaction must know
 * of them (PgBouncer does since 1.21); `?pgbouncer=true` in the URL, as Prisma has it, does without.
 */
export function preparedOptions(databaseUrl: string): PreparedOptions {
  const [, query] = databaseUrl.split('?', 2);
  if (new URLSearchParams(query).get('pgbouncer') === 'true') return UNPREPARED;
  const names = new Map<string, string>();
  return {
    settings: Object.entries({
      plan_cache_mode: 'force_generic_plan',
      ...TRANSITION_SETTINGS,
    }).map(([name, value]) => `${name}=${value}`),
    naming: {
      statementNameGenerator: ({ sql }) => {
        let name = names.get(sql);
        if (name === undefined) {
          name = `leasehold_${createHash('sha256').update(sql).digest('hex').slice(0, 32)}`;
          names.set(sql, name);
        }
        return name;
      },
    },
  };
}
