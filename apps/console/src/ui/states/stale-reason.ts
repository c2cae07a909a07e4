import type { ApiError } from '~/lib/api/api-error.ts';

/** The codes of a missing answer, as this page or the console's own server noticed it. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'network',
  'request.unreachable',
  'request.outcome_unknown',
]);

/** Why a page is stale, and what ends that; pure. */
export function staleReason(
  failure: Pick<ApiError, 'code' | 'message'> | null,
  isSignedOut: boolean,
): string {
  if (isSignedOut || failure?.code === 'auth.required') {
    return 'You are signed out. Sign in to continue.';
  }
  if (failure === null) return 'No answer since then. Trying again automatically.';
  if (NO_ANSWER.has(failure.code)) {
    return 'The controller does not answer. Trying again automatically.';
  }
  return `Could not refresh: ${failure.message} (${failure.code})`;
}
