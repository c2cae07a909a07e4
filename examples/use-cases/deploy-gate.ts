import {
  EnvironmentFrozenError,
  EnvironmentSupersededError,
  LeaseHeldError,
  LeaseWaitTimeoutError,
  type Leasehold,
} from '@leasehold/client';

export interface DeployTools {
  /** Stops when the signal aborts. Each of its steps sends the token, and a smaller one is refused. */
  rollOut(version: string, how: { signal: AbortSignal; fencingToken: string }): Promise<void>;
}

export type DeployOutcome =
  | { readonly outcome: 'deployed' }
  | { readonly outcome: 'busy'; readonly by: string; readonly action: string | null }
  | { readonly outcome: 'superseded'; readonly by: string }
  | { readonly outcome: 'frozen'; readonly until: Date; readonly reason: string };

export interface Deployment {
  /** Its name, or the segments of its namespace and then its name. */
  readonly environment: string | readonly string[];
  readonly version: string;
  readonly by: string;
  /** How long it may wait for its turn; it then takes the place of older ones that wait. */
  readonly waitMs?: number;
  /** Why it must be deployed even while the environment is frozen. */
  readonly urgent?: string;
}

/** One deployment at a time to each environment, the newest of those that wait next, and none while it is frozen. */
export function createDeployGate(leasehold: Leasehold, tools: DeployTools) {
  /** @throws {LeaseLost} if the lease was lost, or an operator has revoked it, before the end. */
  async function deploy(deployment: Deployment): Promise<DeployOutcome> {
    const { environment, version, by, urgent, waitMs = 0 } = deployment;
    await using lease = await leasehold.environments.acquire(environment, {
      action: 'deploy',
      comment: version,
      holder: by,
      renew: true,
      waitMs,
      supersede: waitMs > 0 ? 'waiting' : undefined,
      override: urgent === undefined ? undefined : { reason: urgent },
    });
    const { signal, fencingToken } = lease;
    try {
      await lease.run(() => tools.rollOut(version, { signal, fencingToken }));
    } catch (error) {
      await lease.release('failed', String(error));
      throw error;
    }
    lease.assertHeld();
    return { outcome: 'deployed' };
  }

  return {
    deploy: (deployment: Deployment): Promise<DeployOutcome> => deploy(deployment).catch(refusalOf),
  };
}

function refusalOf(error: unknown): DeployOutcome {
  if (error instanceof LeaseHeldError || error instanceof LeaseWaitTimeoutError) {
    const { by, action } = error.heldBy;
    return { outcome: 'busy', by, action };
  }
  if (error instanceof EnvironmentSupersededError) return { outcome: 'superseded', by: error.by };
  if (error instanceof EnvironmentFrozenError) {
    const { until, reason } = error;
    return { outcome: 'frozen', until, reason };
  }
  throw error;
}
