/** Environment leases: only one action may run in an environment at a time. */
import { LeaseholdCallError } from './transport/call-errors.ts';
import { LeaseHeldError } from './lease/lease-errors.ts';
import { runUnder, type TryAcquireOptions } from './lease/lease-definition.ts';
import type { LeaseAttempt, LeaseTaker, AcquireIntent } from './lease/acquire/lease-taker.ts';
import type { Lease } from './lease/lease.ts';
import { assertName, assertNamespaceSegments } from './lease/wire/segments.ts';

export interface EnvironmentOptions extends Omit<TryAcquireOptions, 'ttlMs'> {
  /** The action: `deploy`, `migrate`, … */
  readonly action: string;
  /** How long the lease lasts: 1 s to 24 h; by default the controller's setting, 60 s. */
  readonly durationMs?: number | undefined;
  /** Whether the client renews it until it is released; by default false. */
  readonly renew?: boolean | undefined;
}

export interface Environments {
  /**
   * Acquires the environment if it is free now; otherwise the result has the holder, the start and the
   * comment. It is safe to release the lease after it has expired.
   * @throws as `acquire` of a lease does.
   */
  tryAcquire(
    environment: string | readonly string[],
    options: EnvironmentOptions,
  ): Promise<LeaseAttempt>;
}

export interface EnvironmentWork<T> extends EnvironmentOptions {
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
  return { tryAcquire: async (...args) => taker.tryAcquire(intentOf(holder, ...args)) };
}

/** See `Leasehold.withEnvironmentLease`. */
export async function withEnvironmentLease<T>(
  taker: LeaseTaker,
  intent: AcquireIntent,
  { veto, record }: Pick<EnvironmentWork<T>, 'veto' | 'record'>,
): Promise<T> {
  const attempt = await taker.tryAcquire(intent);
  if (attempt.outcome === 'held') throw new LeaseHeldError(intent.scope, attempt);
  return runUnder(attempt.lease, async (lease) => {
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
  options: EnvironmentOptions,
): AcquireIntent {
  const segments = typeof environment === 'string' ? [environment] : environment;
  const namespace = segments.slice(0, -1);
  const key = segments.at(-1) ?? '';
  assertNamespaceSegments(namespace);
  assertName('environment', key);
  const { durationMs, renew = false, action, comment, metadata, datacenter, signal } = options;
  return {
    scope: { face: 'environment', namespace, key },
    ttlMs: durationMs,
    holder: options.holder ?? holder,
    renews: renew,
    waitMs: 0,
    ...{ action, comment, metadata, datacenter, signal },
  };
}

function reasonsOf(answer: VetoAnswer): readonly string[] {
  if (answer === null || answer === undefined) return [];
  return typeof answer === 'string' ? [answer] : answer;
}
