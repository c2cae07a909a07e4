/**
 * Statements that are planned once for each connection.
 *
 * The grant statement took twice as long to plan as to carry out. Its plan is the same each time: every
 * row is one probe of an index, however large the table is and however many are asked for. So it is
 * made once, for parameters of any size, and never by reading a whole table, which is what the planner
 * would choose for a table that was empty when it planned.
 */
import { createHash } from 'node:crypto';
import { connectionOf } from '@leasehold/service-kit/database-url';

/** What a pool is opened with besides its timeouts. */
export interface PreparedOptions {
  /** Start-up settings of its connections. */
  readonly settings: Readonly<Record<string, string>>;
  /** The name under which a connection keeps the plan of a statement; without it, plans are not kept. */
  readonly nameOf?: (text: string) => string;
}

/**
 * Transitions skip locked rows. They may only have to wait for a row that another transaction is just
 * inserting; after this long the rest of the batch continues without it.
 */
const LOCK_TIMEOUT_MS = 1_000;

/** The settings of transitions, whether planned once or each time. */
export const TRANSITION_SETTINGS = {
  enable_seqscan: 'off',
  lock_timeout: String(LOCK_TIMEOUT_MS),
} as const;

/** Every statement is planned when it is sent, for the very parameters that it has. */
export const UNPREPARED: PreparedOptions = { settings: {} };

/**
 * Prepared statements belong to a session. Poolers that hand out sessions by the transaction must support
 * them (PgBouncer does since 1.21); `?pgbouncer=true` in the URL, as with Prisma, turns them off.
 */
export function preparedOptions(databaseUrl: string): PreparedOptions {
  if (connectionOf(databaseUrl).isPooled) return UNPREPARED;
  const names = new Map<string, string>();
  return {
    settings: { plan_cache_mode: 'force_generic_plan', ...TRANSITION_SETTINGS },
    nameOf(text) {
      let name = names.get(text);
      if (name === undefined) {
        name = `leasehold_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
        names.set(text, name);
      }
      return name;
    },
  };
}
