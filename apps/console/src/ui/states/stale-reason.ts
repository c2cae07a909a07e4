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
    return 'You are not signed in any more. Sign in to continue.';
  }
  if (failure === null) return 'No answer has come since; trying again by itself.';
  if (NO_ANSWER.has(failure.code)) return 'The controller does not answer; trying again by itself.';
  return `It could not be read again: ${failure.message} (${failure.code})`;
}
