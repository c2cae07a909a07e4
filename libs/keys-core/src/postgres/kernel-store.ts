import type { Clock, IdSource } from '../kernel/clock.ts';
import type { ClockWatch } from './clock/clock-watch.ts';
import type { Hints } from './hints.ts';
import type { LongestTtl } from './clock/longest-ttl.ts';
import type { StoreObserver } from './observer.ts';
import type { Sql, SqlPool } from './sql.ts';
import type { DatabaseWitness } from './witness/database-witness.ts';

/**
 * What leases need of an open database. A controller's {@link Store} is one, on pools of its own; and
 * so is the database of a service, see `service-store.ts`.
 */
export interface KernelStore {
  /** For everything without a lane of its own. */
  readonly general: SqlPool<'general'>;
  /** For grants, releases and the reads between them. */
  readonly transitions: SqlPool<'transitions'>;
  readonly renewals: Sql<'renewals'>;
  /** For grants that meet a locked row, so that they wait where they delay nobody. */
  readonly slowLane: SqlPool<'slowLane'>;
  readonly hints: Hints;
  readonly clockWatch: ClockWatch;
  readonly witness: DatabaseWitness;
  readonly longestTtl: LongestTtl;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly observer: StoreObserver;
  /** After how long the server has surely cancelled any transition, in milliseconds. */
  readonly statementTimeoutMs: number;
}
