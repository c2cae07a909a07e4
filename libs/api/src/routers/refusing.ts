/** Requests that are refused before a service sees them. */
import { LeaseError } from '@leasehold/keys-core';

/** Records a refusal under the idempotency key of its request, and throws it, or answers as before. */
export type Refuse<Answer> = (error: LeaseError) => Promise<Answer>;

/**
 * Carries a request out. A refusal that no retry changes is recorded: a late duplicate is not granted what
 * its caller was refused.
 */
export async function refusing<Answer>(
  refuse: Refuse<Answer>,
  run: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await run();
  } catch (error) {
    return refused(refuse, error);
  }
}

/** What a request gets that has failed. */
export async function refused<Answer>(refuse: Refuse<Answer>, error: unknown): Promise<Answer> {
  if (!(error instanceof LeaseError) || error.retryable) throw error;
  return refuse(error);
}
