import { TRPCClientError } from '@trpc/client';

/** What a refused or failed call says, in the contract's words. */
export class ApiError extends Error {
  /** `group.reason`; `network` when no answer came. */
  readonly code: string;
  readonly isRetryable: boolean;
  /** What an operator looks for in the controller's log; null for a plain refusal. */
  readonly incidentId: string | null;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    message: string,
    fields: {
      code: string;
      isRetryable: boolean;
      incidentId: string | null;
      details?: Readonly<Record<string, unknown>>;
      cause?: unknown;
    },
  ) {
    super(message, { cause: fields.cause });
    this.name = 'ApiError';
    this.code = fields.code;
    this.isRetryable = fields.isRetryable;
    this.incidentId = fields.incidentId;
    this.details = fields.details ?? {};
  }
}

interface ErrorData {
  readonly leaseholdCode?: unknown;
  readonly retryable?: unknown;
  readonly incidentId?: unknown;
  readonly details?: unknown;
}

/** Any failure as an {@link ApiError}. An aborted call stays what it is. */
export function toApiError(error: unknown): unknown {
  if (error instanceof ApiError || !(error instanceof TRPCClientError)) return error;
  if (error.cause?.name === 'AbortError') return error.cause;
  const data = (error.data ?? {}) as ErrorData;
  if (typeof data.leaseholdCode !== 'string') {
    return new ApiError('The controller could not be reached.', {
      code: 'network',
      isRetryable: true,
      incidentId: null,
      cause: error,
    });
  }
  return new ApiError(error.message, {
    code: data.leaseholdCode,
    isRetryable: data.retryable === true,
    incidentId: typeof data.incidentId === 'string' ? data.incidentId : null,
    details: (data.details ?? {}) as Readonly<Record<string, unknown>>,
    cause: error,
  });
}

/** Whether the failure means that nobody is signed in any more. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'auth.required';
}
