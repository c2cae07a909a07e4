/** Environment leases: only one action may run in an environment at a time. */
import {
  assertEnvironment,
  assertEnvironmentWork,
  plainMetadata,
  type EnvironmentUse,
} from './inputs.ts';
import type { AcquireIntent, LeaseAttempt, LeaseTaker } from './lease/acquire.ts';
import type { WaitingFor } from './lease/attempt.ts';
import { runUnder, type TryAcquireOptions } from './lease/lease-definition.ts';
import type { Lease } from './lease/lease.ts';
import { LeaseholdCallError } from './transport/errors.ts';

export interface EnvironmentOptions extends Omit<TryAcquireOptions, 'ttlMs'> {
  /** The action: `deploy`, `migrate`, … */
  readonly action: string;
  /** How long the lease lasts: 1 s to 24 h; by default the controller's setting, 60 s. */
  readonly durationMs?: number | undefined;
  /** Whether the client renews it until it is released; by default false. */
  readonly renew?: boolean | undefined;
  /** Asks for it although it is frozen, for a reason that the audit keeps. Who may is named by the freeze. */
  readonly override?: { readonly reason: string } | undefined;
}

export interface EnvironmentWait {
  /**
   * How long to wait in its line, up to 7 days; by default 0. The place is kept across new connections and starts of
   * controllers, as long as the client answers again within 25 s.
   */
  readonly waitMs?: number | undefined;
  /** `newest`: before those of the same role that came earlier; by default after them. */
  readonly order?: 'oldest' | 'newest' | undefined;
  /**
   * Ends those that wait for the same action and came earlier: they fail with {@link EnvironmentSupersededError}. With
   * `running`, the one that holds it is also revoked, and this waits until it has released it, or it has run out.
   */
  readonly supersede?: 'waiting' | 'running' | undefined;
  /** Called with who is before it and at which place it is, again and again while it waits. */
  readonly onWaiting?: ((waiting: WaitingFor) => void) | undefined;
}

export interface Environments {
  /**
   * Acquires the environment, after a wait in its line for up to `waitMs`. A freeze that ends before is waited out.
   * @throws {LeaseWaitTimeoutError} when the time is over, or {@link LeaseHeldError} without `waitMs`;
   * `EnvironmentSupersededError` when a newer request has superseded it; `EnvironmentFrozenError` when it is frozen
   * for longer than `waitMs`; otherwise as `acquire` of a lease does.
   */
  acquire(
    environment: string | readonly string[],
    options: EnvironmentOptions & EnvironmentWait,
  ): Promise<Lease>;

  /**
   * Acquires the environment if it is free now; otherwise the result has the holder, the start and the
   * comment. It is safe to release the lease after it has expired.
   * @throws {EnvironmentFrozenError} while it is frozen; otherwise as `acquire` of a lease does.
   */
  tryAcquire(
    environment: string | readonly string[],
    options: EnvironmentOptions,
  ): Promise<LeaseAttempt>;
}

export interface EnvironmentWork<T> extends EnvironmentOptions, EnvironmentWait {
  /** Returns why the action may not run now; nothing, or an empty list, if it may. */
  readonly veto?: ((lease: Lease) => VetoAnswer | Promise<VetoAnswer>) | undefined;
  /** Records that the environment is in use. */
  readonly record: (lease: Lease) => T | Promise<T>;
}

export type VetoAnswer = string | readonly string[] | null | undefined;

/** The veto check refused the action; nothing was recorded. */
export class EnvironmentVetoedError extends LeaseholdCallError {
  override readonly name = 'EnvironmentVetoedError';
  readonly reasons: readonly string[];

  constructor(reasons: readonly string[]) {
    const reason = reasons.join('; ');
    super('environment.vetoed', { message: reason, details: { reason } });
    this.reasons = reasons;
  }
}

export function createEnvironments(taker: LeaseTaker, holder: string): Environments {
  return {
    acquire: async (environment, options) =>
      taker.acquire(intentOf(holder, environment, options, 'acquire')),
    tryAcquire: async (environment, options) =>
      taker.tryAcquire(intentOf(holder, environment, options, 'try')),
  };
}

/** See `Leasehold.withEnvironmentLease`. */
export async function withEnvironmentLease<T>(
  taker: LeaseTaker,
  intent: AcquireIntent,
  work: Pick<EnvironmentWork<T>, 'veto' | 'record'>,
): Promise<T> {
  assertEnvironmentWork(work);
  const { veto, record } = work;
  return runUnder(await taker.acquire(intent), async (lease) => {
    const reasons = reasonsOf(await veto?.(lease));
    if (reasons.length > 0) throw new EnvironmentVetoedError(reasons);
    // The veto may have taken longer than the lease.
    lease.assertHeld();
    return record(lease);
  });
}

export function intentOf(
  holder: string,
  environment: string | readonly string[],
  options: EnvironmentOptions & EnvironmentWait,
  use: EnvironmentUse,
): AcquireIntent {
  const segments = typeof environment === 'string' ? [environment] : environment;
  assertEnvironment(segments, options, use);
  const namespace = segments.slice(0, -1);
  const key = segments.at(-1) ?? '';
  const { durationMs, renew = false, action, comment, metadata, datacenter, signal } = options;
  const { override, waitMs = 0, order, supersede, onWaiting } = options;
  return {
    scope: { face: 'environment', namespace, key },
    ttlMs: durationMs,
    holder: options.holder ?? holder,
    renews: renew,
    waitMs,
    order,
    supersede,
    onWaiting,
    metadata: plainMetadata(metadata),
    action,
    comment,
    override,
    datacenter,
    signal,
  };
}

/** @throws {LeaseholdCallError} `request.invalid` for anything else: what is not understood permits nothing. */
function reasonsOf(answer: VetoAnswer): readonly string[] {
  if (answer === null || answer === undefined) return [];
  const reasons = typeof answer === 'string' ? [answer] : answer;
  const isList = Array.isArray(reasons) && reasons.every((reason) => typeof reason === 'string');
  if (isList) return reasons;
  throw new LeaseholdCallError('request.invalid', {
    message: 'veto must return a reason, a list of reasons, or null: nothing was recorded',
    details: { field: 'veto' },
  });
}
