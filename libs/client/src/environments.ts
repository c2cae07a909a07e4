/** Environment leases: whether an action may run somewhere, with nobody else doing so meanwhile. */
import { LeaseholdCallError } from './call-errors.ts';
import { LeaseHeldError } from './lease/lease-errors.ts';
import { runUnder, type TryAcquireOptions } from './lease/lease-definition.ts';
import type { LeaseAttempt, LeaseTaker, AcquireIntent } from './lease/lease-taker.ts';
import type { Lease } from './lease/lease.ts';
import { assertName, assertNamespaceSegments } from './lease/segments.ts';

export interface EnvironmentOptions extends Omit<TryAcquireOptions, 'ttlMs'> {
  /** What the environment is wanted for: `deploy`, `migrate`, … */
  readonly action: string;
  /** How long the lease lasts: 1 s to 24 h; the controller's own, 60 s, unless said. */
  readonly durationMs?: number | undefined;
  /** Whether it is renewed until it is released; false unless said. */
  readonly renew?: boolean | undefined;
}

export interface Environments {
  /**
   * Takes the environment if it is free at this moment; who holds it, since when and why, is a value.
   * Closing the lease after it has run out is harmless.
   * @throws as `acquire` of a lease does.
   */
  tryAcquire(
    environment: string | readonly string[],
    options: EnvironmentOptions,
  ): Promise<LeaseAttempt>;
}

export interface EnvironmentWork<T> extends EnvironmentOptions {
  /** Why the action may not run now; nothing, or an empty list, when it may. */
  readonly veto?: ((lease: Lease) => VetoAnswer | Promise<VetoAnswer>) | undefined;
  /** Records that the environment is in use. */
  readonly record: (lease: Lease) => T | Promise<T>;
}

export type VetoAnswer = string | readonly string[] | null | undefined;

/** The veto check had something against it; nothing was recorded. */
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
