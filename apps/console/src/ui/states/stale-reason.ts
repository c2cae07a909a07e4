import type { ApiError } from '~/lib/api/api-error.ts';

/** No answer, in the words of the one that noticed it: this page, or the console's own server. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'network',
  'request.unreachable',
  'request.outcome_unknown',
]);

/** Why a page is not the present, and what ends that; pure. */
export function staleReason(
  failure: Pick<ApiError, 'code' | 'message'> | null,
  isSignedOut: boolean,
): string {
  if (isSignedOut || failure?.code === 'auth.required') {
    return 'You are not signed in any more; sign in to go on.';
  }
  if (failure === null) return 'No answer has come since; trying again by itself.';
  if (NO_ANSWER.has(failure.code)) return 'The controller does not answer; trying again by itself.';
  return `It could not be read again: ${failure.message} (${failure.code})`;
}
