import type { ApiError } from '../../lib/api-error.ts';

/** Why a page is not the present, and what ends that; pure. */
export function staleReason(
  failure: Pick<ApiError, 'code' | 'message'> | null,
  isSignedOut: boolean,
): string {
  if (isSignedOut || failure?.code === 'auth.required') {
    return 'You are not signed in any more; sign in to go on.';
  }
  if (failure === null) return 'No answer has come since; trying again by itself.';
  if (failure.code === 'network') return 'The controller does not answer; trying again by itself.';
  return `It could not be read again: ${failure.message} (${failure.code})`;
}
