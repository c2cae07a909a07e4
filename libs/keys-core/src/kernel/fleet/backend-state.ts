/**
 * The states of a backend, in the only order in which it goes through them: Plane's, plus `hard_terminating`
 * for a backend that has been sent SIGKILL.
 */
export const BACKEND_STATUSES = [
  'scheduled',
  'loading',
  'starting',
  'waiting',
  'ready',
  'terminating',
  'hard_terminating',
  'terminated',
] as const;
export type BackendStatus = (typeof BACKEND_STATUSES)[number];

/** Why a backend was stopped. */
export const TERMINATION_REASONS = [
  'key_expired',
  'renewal_refused',
  'revoked',
  'external',
  'lifetime',
  'startup_timeout',
  'exited',
  'drone_lost',
  'internal',
] as const;
export type TerminationReason = (typeof TERMINATION_REASONS)[number];

/** The position of a status in the order; a report moves a backend only to a later one. */
export function statusRank(status: BackendStatus): number {
  return BACKEND_STATUSES.indexOf(status);
}

/** Whether a backend in this status is ending, so that no caller is sent to it. */
export function isStopping(status: BackendStatus): boolean {
  return statusRank(status) >= statusRank('terminating');
}

/** What backends are ordered by. By what they use, only those are listed of which that is known. */
export const BACKEND_SORTS = ['created', 'memory', 'cpu'] as const;
export type BackendSort = (typeof BACKEND_SORTS)[number];
