/** What apps and other slices may use. */
export {
  type Environment,
  ENVIRONMENT_LEASE_MS,
  type EnvironmentAcquire,
  type EnvironmentLease,
  type EnvironmentLeaseDeps,
  type EnvironmentRequest,
  type EnvironmentUse,
  type EnvironmentUseOutcome,
  tryAcquireEnvironment,
  withEnvironmentLease,
} from './environment-lease.ts';
