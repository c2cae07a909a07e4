import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { wasNeverSent } from '@leasehold/service-kit/controllers';
import { TRPCClientError } from '@trpc/client';

/** What a controller answered instead of a result. */
export interface LeaseholdError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly incidentId: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * The error of the registry that a failed call carries. A call whose connection broke, whose time ran
 * out, or which something in between answered is `request.outcome_unknown`: whether it was carried
 * out, nobody here knows. Undefined when it surely was not: see {@link isUnreachable}; when the caller
 * itself gave up; and for what is no failure of a call.
 */
export function leaseholdErrorOf(error: unknown): LeaseholdError | undefined {
  if (!(error instanceof TRPCClientError)) return undefined;
  const { cause } = error;
  if (cause instanceof LeaseError) {
    const { code, message, retryable, details } = cause;
    return { code, message, retryable, incidentId: null, details };
  }
  const data: unknown = error.data;
  if (typeof data === 'object' && data !== null && 'leaseholdCode' in data) {
    return answeredError(error.message, { ...data });
  }
  return isUnreachable(error) || isGivenUp(cause) ? undefined : outcomeUnknown();
}

function answeredError(message: string, data: Record<string, unknown>): LeaseholdError {
  const { leaseholdCode, retryable, incidentId, details } = data;
  return {
    // A newer controller may know codes that this client does not; they stay what they are.
    code: leaseholdCode as ErrorCode,
    message,
    retryable: retryable === true,
    incidentId: typeof incidentId === 'string' ? incidentId : null,
    details:
      typeof details === 'object' && details !== null ? (details as Record<string, unknown>) : {},
  };
}

function isGivenUp(cause: unknown): boolean {
  return cause instanceof Error && cause.name === 'AbortError';
}

function outcomeUnknown(): LeaseholdError {
  const { retryable } = ERROR_CODES['request.outcome_unknown'];
  return {
    code: 'request.outcome_unknown',
    message: 'The connection to the controller broke; the outcome is unknown.',
    retryable,
    incidentId: null,
    details: {},
  };
}

/** Whether a call failed because nothing answers at the controller's address: nothing was sent. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof TRPCClientError && wasNeverSent(error.cause);
}
