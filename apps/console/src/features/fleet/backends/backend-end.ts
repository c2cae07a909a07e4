import { REASON_TEXTS, type Backend } from './backend-texts.ts';

/** Why a backend has ended or is going to, with its exit code; undefined while it runs. */
export function endOf({
  reason,
  exitCode,
}: Pick<Backend, 'reason' | 'exitCode'>): string | undefined {
  if (reason === null) return exitCode === null ? undefined : `exit code ${String(exitCode)}`;
  const text = REASON_TEXTS[reason];
  return exitCode === null ? text : `${text} (${String(exitCode)})`;
}
