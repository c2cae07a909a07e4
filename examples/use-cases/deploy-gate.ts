import type { Leasehold } from '@leasehold/client';

export interface DeployTools {
  /** Why nothing may be deployed to an environment for now. */
  readFreeze(environment: string): Promise<string | undefined>;
  recordFreeze(environment: string, reason: string): Promise<void>;
  /** Stops when the signal aborts. Each of its steps sends the token, and a smaller one is refused. */
  rollOut(version: string, how: { signal: AbortSignal; fencingToken: string }): Promise<void>;
}

export type DeployOutcome =
  | { readonly outcome: 'deployed' }
  | { readonly outcome: 'busy'; readonly by: string; readonly action: string | null }
  | { readonly outcome: 'frozen'; readonly reason: string };

/** One deployment at a time to each environment, and none while it is frozen. */
export function createDeployGate(leasehold: Leasehold, tools: DeployTools) {
  return {
    /** @throws {LeaseLost} if the lease was lost, or an operator has revoked it, before the end. */
    async deploy(environment: string, version: string, by: string): Promise<DeployOutcome> {
      await using attempt = await leasehold.environments.tryAcquire(environment, {
        action: `deploy ${version}`,
        holder: by,
        renew: true,
      });
      if (attempt.outcome === 'held') {
        return { outcome: 'busy', by: attempt.by, action: attempt.action };
      }
      // Nobody can freeze the environment from here on until the lease is released.
      const reason = await tools.readFreeze(environment);
      if (reason !== undefined) return { outcome: 'frozen', reason };
      const { lease } = attempt;
      const { signal, fencingToken } = lease;
      await lease.run(() => tools.rollOut(version, { signal, fencingToken }));
      lease.assertHeld();
      return { outcome: 'deployed' };
    },

    /** Refused while somebody deploys. @throws {LeaseHeldError}. */
    freeze: (environment: string, reason: string, by: string): Promise<void> =>
      leasehold.withEnvironmentLease(environment, {
        action: 'freeze',
        holder: by,
        comment: reason,
        record: () => tools.recordFreeze(environment, reason),
      }),
  };
}
