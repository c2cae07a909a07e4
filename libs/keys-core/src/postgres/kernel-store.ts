import { activeTracer, isWithinSpan, SpanKind, traced } from '@leasehold/service-kit/tracing';
import type { TerminationReason } from '../kernel/backends.ts';
import { type Clock, type IdSource, untilCalled } from '../kernel/clock.ts';
import type { RefusedRenewal } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';
import type { ClockWatch } from './clock/clock-watch.ts';
import type { LongestTtl } from './witness/epoch.ts';
import type { Hints } from './hints.ts';
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

/** The kinds of statement that are counted and timed. */
export type StatementKind =
  | 'grant'
  | 'renew'
  | 'update'
  | 'release'
  | 'block_renewal'
  | 'allow_renewal'
  | 'revoke'
  | 'reap'
  | 'connect'
  | 'report';

/** Notified of what the store does, for metrics and alarms. It must not throw. */
export interface StoreObserver {
  batch(kind: StatementKind, size: number): void;
  statement(kind: StatementKind, durationMs: number): void;
  /**
   * `status` is what the resource was before: keel's free, expired, active. `action` is what an
   * environment is requested for; other faces have none.
   */
  grant(
    face: Face,
    outcome: 'granted' | 'denied',
    status: 'free' | 'expired' | 'active',
    action?: string,
  ): void;
  renewal(face: Face, outcome: string, count: number): void;
  /** Which renewals were refused; those without a grant are left out. Called after `renewal`. */
  renewalsRefused(face: Face, refused: readonly RefusedRenewal[]): void;
  release(face: Face, outcome: string): void;
  /** A grant was released before its expiry, `heldMs` after it was made. `action` as in `grant`. */
  held(face: Face, heldMs: number, action?: string): void;
  waited(face: Face, durationMs: number, outcome: 'granted' | 'gave_up'): void;
  /** Requests for an environment that waited, or the one that ran, gave way to a newer one. */
  superseded(was: 'waiting' | 'running', count: number): void;
  /** A waiting caller was granted the resource, this long after the previous grant had ended. */
  handedOver(face: Face, durationMs: number): void;
  /** A connect that was denied the grant got the backend that the holder runs. */
  joined(face: Face): void;
  /** A grant was ended by the reaper, `lagMs` after its expiry. */
  reaped(face: Face, lagMs: number): void;
  /** The callback of a use case was called for one of its expired leases; a failed one is called again. */
  reapCallback(outcome: 'done' | 'failed'): void;
  /** The database's clock jumped by this much relative to the controller's own. */
  clockJump(jumpMs: number): void;
  /** The program of a backend has failed. */
  backendFailed(reason: TerminationReason): void;
  /** Backends were stopped because nobody used them. */
  idleStopped(count: number): void;
  /** A backend was still stopping when its key had expired: a defect. */
  overstay(backendId: string): void;
}

/** Counts nothing. */
export const SILENT_OBSERVER: StoreObserver = {
  batch: () => undefined,
  statement: () => undefined,
  grant: () => undefined,
  renewal: () => undefined,
  renewalsRefused: () => undefined,
  release: () => undefined,
  held: () => undefined,
  waited: () => undefined,
  superseded: () => undefined,
  handedOver: () => undefined,
  joined: () => undefined,
  reaped: () => undefined,
  reapCallback: () => undefined,
  clockJump: () => undefined,
  backendFailed: () => undefined,
  idleStopped: () => undefined,
  overstay: () => undefined,
};

/**
 * Runs a statement and tells the observer how long it took. In a trace it has a span: with the name of its
 * kind, and without its text and parameters.
 */
export async function timed<T>(
  store: KernelStore,
  kind: StatementKind,
  run: () => Promise<T>,
): Promise<T> {
  const startedAtMs = store.clock.nowMs();
  const tracer = activeTracer();
  try {
    if (tracer === undefined || !isWithinSpan()) return await run();
    const attributes = { 'db.system.name': 'postgresql', 'db.operation.name': kind };
    return await traced(tracer, { name: kind, kind: SpanKind.CLIENT, attributes }, run);
  } finally {
    store.observer.statement(kind, store.clock.nowMs() - startedAtMs);
  }
}

/** Waits by the store's own clock, or until the signal aborts. */
export function pause(
  { clock }: Pick<KernelStore, 'clock'>,
  ms: number,
  signal?: AbortSignal,
): Promise<void> {
  return untilCalled((finish) => clock.at(clock.nowMs() + ms, finish), signal);
}
