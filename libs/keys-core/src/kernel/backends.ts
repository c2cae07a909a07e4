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
  'idle',
  'startup_timeout',
  'exited',
  'drone_lost',
  'refused',
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

// How a backend ended, in words that are the same wherever people read them.

export interface BackendEnd {
  readonly reason: TerminationReason | null;
  /** As a shell reports it: 128 + n for signal n. */
  readonly exitCode: number | null;
  /** What its drone has said about it. */
  readonly detail?: string | null | undefined;
}

/** The numbers of signals on Linux. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
};

const STOPPED: Partial<Record<TerminationReason, string>> = {
  key_expired: 'it was stopped: its key was not renewed in time',
  renewal_refused: 'it was stopped: the renewal of its key was refused',
  revoked: 'it was stopped: its key was revoked',
  external: 'it was stopped by an operator, or with its drone',
  lifetime: 'it was stopped: its lifetime was over',
  idle: 'it was stopped: nobody used it for as long as its idle time',
  drone_lost: 'its drone was lost',
  refused: 'its drone refused to start it',
};

/** The signal that ended a program, by its exit code; undefined for a program that exited by itself. */
export function signalOf(exitCode: number | null): string | undefined {
  return exitCode === null ? undefined : SIGNALS[exitCode - 128];
}

/**
 * Whether a backend ended by a failure of its program: it crashed, could not be started, or was not ready in time.
 * An exit with code 0 is one only before it was ready.
 */
export function hasFailed({ reason, exitCode }: BackendEnd, wasReady: boolean): boolean {
  if (reason === 'startup_timeout' || reason === 'internal') return true;
  return reason === 'exited' && (exitCode !== 0 || !wasReady);
}

/** Whether a backend failed by its program, or was never started because its drone refused to: people look for why. */
export function hasFailedOrWasRefused(end: BackendEnd, wasReady: boolean): boolean {
  return end.reason === 'refused' || hasFailed(end, wasReady);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** How long its program lived, for the end of a sentence: ", 0.4 s after its start"; empty if it was never started. */
export function sayLived(livedMs: number | null): string {
  if (livedMs === null) return '';
  if (livedMs >= HOUR_MS) return `, ${(livedMs / HOUR_MS).toFixed(1)} h after its start`;
  if (livedMs >= MINUTE_MS) {
    return `, ${String(Math.floor(livedMs / MINUTE_MS))} min after its start`;
  }
  return `, ${(livedMs / 1_000).toFixed(1)} s after its start`;
}

/** How a backend failed that did, in the words of a list: `Crashed (17)`. */
export function sayFailure({ reason, exitCode }: Pick<BackendEnd, 'reason' | 'exitCode'>): string {
  if (reason === null) return 'Failed';
  if (reason === 'startup_timeout') return 'Not ready in time';
  if (reason === 'refused') return 'Refused by its drone';
  if (reason === 'internal') return 'Could not be run';
  const signal = signalOf(exitCode);
  if (signal !== undefined) return `Killed by ${signal}`;
  if (exitCode === null) return 'Ended, code unknown';
  return exitCode === 0 ? 'Ended before it was ready' : `Crashed (${String(exitCode)})`;
}

/** Why it ended, as the rest of a sentence: "it crashed with exit code 17". */
export function sayEnd({ reason, exitCode, detail }: BackendEnd): string {
  const said = detail === null || detail === undefined || detail === '' ? '' : `: ${detail}`;
  if (reason === null) return `it ended${said}`;
  if (reason === 'startup_timeout') return `it was not ready in time${said}`;
  if (reason === 'internal') return `it could not be run${said}`;
  if (reason !== 'exited') return `${STOPPED[reason] ?? 'it was stopped'}${said}`;
  const signal = signalOf(exitCode);
  if (signal !== undefined) return `it was killed by ${signal}${said}`;
  if (exitCode === null) return `it ended, and its exit code is not known${said}`;
  return exitCode === 0
    ? `it ended with exit code 0${said}`
    : `it crashed with exit code ${String(exitCode)}${said}`;
}
