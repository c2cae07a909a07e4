import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { firstCauseOf, wasNeverSent } from '@leasehold/service-kit/controllers';
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
 * The error of the registry for a failed call. It is `request.outcome_unknown` if the connection broke,
 * the time limit passed, or a proxy answered: the call may have been carried out. Undefined if it was
 * certainly not carried out (see {@link isUnreachable}), if the caller cancelled it, and for errors that
 * are not failures of a call.
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
  const turnedAway = turnedAwayWith(cause);
  if (turnedAway !== undefined) return errorOf(turnedAway);
  if (isUnreachable(error) || isGivenUp(cause)) return undefined;
  return { ...errorOf('request.outcome_unknown'), message: lostText(cause) };
}

/** How an answer was lost, with the first cause in a second line. */
function lostText(cause: unknown): string {
  const first = firstCauseOf(cause);
  const why = first instanceof Error ? (first.message.split('\n', 1)[0] ?? '') : '';
  // A page of a proxy, for example.
  const isNoJson = first instanceof SyntaxError;
  const how = isNoJson
    ? 'What answered is no controller'
    : 'The connection to the controller broke';
  const text = `${how}; the outcome is unknown.`;
  return why === '' ? text : `${text}\n${why}`;
}

/**
 * The code with which a controller refused this connection before it carried anything out: the reason
 * with which the WebSocket was closed.
 */
function turnedAwayWith(cause: unknown): ErrorCode | undefined {
  for (const event of [cause, cause instanceof Error ? cause.cause : undefined]) {
    if (typeof event !== 'object' || event === null || !('reason' in event)) continue;
    const { reason } = event;
    if (typeof reason === 'string' && reason in ERROR_CODES) return reason as ErrorCode;
  }
  return undefined;
}

function errorOf(code: ErrorCode): LeaseholdError {
  const { text, retryable } = ERROR_CODES[code];
  return { code, message: text, retryable, incidentId: null, details: {} };
}

function answeredError(message: string, data: Record<string, unknown>): LeaseholdError {
  const { leaseholdCode, retryable, incidentId, details } = data;
  return {
    // A newer controller may know codes that this client does not; they stay unchanged.
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

/** Whether a call failed because nothing answers at the controller's address: nothing was sent. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof TRPCClientError && wasNeverSent(error.cause);
}
