import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
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
 * The error of the registry that a failed call carries. A call whose connection broke or whose
 * time ran out is `request.outcome_unknown`: whether it was carried out, nobody here knows.
 * Undefined for anything else, an unreachable controller included: see {@link isUnreachable}.
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
    return answeredError(error.message, data);
  }
  return isLostConnection(cause) ? lostConnection() : undefined;
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

function isLostConnection(cause: unknown): boolean {
  return cause instanceof Error && cause.name === 'TRPCWebSocketClosedError';
}

function lostConnection(): LeaseholdError {
  const { text, retryable } = ERROR_CODES['request.outcome_unknown'];
  return {
    code: 'request.outcome_unknown',
    message: text,
    retryable,
    incidentId: null,
    details: {},
  };
}

/** Whether a call failed because nothing answers at the controller's address. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof TRPCClientError) || leaseholdErrorOf(error) !== undefined) return false;
  return error.cause instanceof TypeError && error.cause.message === 'fetch failed';
}
