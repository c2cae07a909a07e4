import type { BackendStatus, TerminationReason } from '@leasehold/keys-core';

/** Why a backend was stopped. */
export const REASON_TEXTS: Record<TerminationReason, string> = {
  key_expired: 'its key expired',
  renewal_refused: 'renewal of its key was refused',
  revoked: 'its key was revoked',
  external: 'it was stopped on request',
  lifetime: 'its lifetime ended',
  startup_timeout: 'it was not ready in time',
  exited: 'it ended by itself',
  drone_lost: 'its drone was lost',
  internal: 'the drone failed',
};

/** What stands before the text of `endOf`. */
export function endLabel(status: BackendStatus): string {
  return status === 'terminated' ? 'Ended because' : 'Ending because';
}

/** Why a backend has ended or is going to, with its exit code; undefined while it runs. */
export function endOf({
  reason,
  exitCode,
}: {
  readonly reason: TerminationReason | null;
  readonly exitCode: number | null;
}): string | undefined {
  if (reason === null) return exitCode === null ? undefined : `exited, code ${String(exitCode)}`;
  const text = REASON_TEXTS[reason];
  return exitCode === null ? text : `${text}; exited, code ${String(exitCode)}`;
}
