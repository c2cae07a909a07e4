import { EnvironmentFrozenError, type Leasehold } from '@leasehold/client';

export interface DeployTools {
  /** Stops when the signal aborts. Each of its steps sends the token, and a smaller one is refused. */
  rollOut(version: string, how: { signal: AbortSignal; fencingToken: string }): Promise<void>;
}

export type DeployOutcome =
  | { readonly outcome: 'deployed' }
  | { readonly outcome: 'busy'; readonly by: string; readonly action: string | null }
  | { readonly outcome: 'frozen'; readonly until: Date; readonly reason: string };

export interface Deployment {
  readonly environment: string;
  readonly version: string;
  readonly by: string;
  /** Why it must be deployed even while the environment is frozen. */
  readonly urgent?: string;
}

/** One deployment at a time to each environment, and none while it is frozen. */
export function createDeployGate(leasehold: Leasehold, tools: DeployTools) {
  /** @throws {LeaseLost} if the lease was lost, or an operator has revoked it, before the end. */
  async function deploy({ environment, version, by, urgent }: Deployment): Promise<DeployOutcome> {
    await using attempt = await leasehold.environments.tryAcquire(environment, {
      action: 'deploy',
      comment: version,
      holder: by,
      renew: true,
      override: urgent === undefined ? undefined : { reason: urgent },
    });
    if (attempt.outcome === 'held') {
      return { outcome: 'busy', by: attempt.by, action: attempt.action };
    }
    const { lease } = attempt;
    const { signal, fencingToken } = lease;
    await lease.run(() => tools.rollOut(version, { signal, fencingToken }));
    lease.assertHeld();
    return { outcome: 'deployed' };
  }

  return {
    deploy: (deployment: Deployment): Promise<DeployOutcome> =>
      deploy(deployment).catch((error: unknown) => {
        if (!(error instanceof EnvironmentFrozenError)) throw error;
        const { until, reason } = error;
        return { outcome: 'frozen', until, reason };
      }),
  };
}
