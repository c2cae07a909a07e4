/** Requests that are refused before a service sees them. */
import { LeaseError } from '@leasehold/keys-core';

interface Refusing<Answer> {
  readonly idempotencyKey: string | undefined;
  /** Records a refusal under the idempotency key, and throws it, or answers as before. */
  readonly refuse: (error: LeaseError) => Promise<Answer>;
}

/**
 * Carries a request out. A refusal that no retry changes is recorded: a late duplicate is not granted what
 * its caller was refused.
 */
export async function refusing<Answer>(
  how: Refusing<Answer>,
  run: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await run();
  } catch (error) {
    return refused(how, error);
  }
}

/** What a request gets that has failed. */
export async function refused<Answer>(
  { idempotencyKey, refuse }: Refusing<Answer>,
  error: unknown,
): Promise<Answer> {
  const isRefusal = error instanceof LeaseError && !error.retryable;
  if (idempotencyKey === undefined || !isRefusal) throw error;
  return refuse(error);
}
