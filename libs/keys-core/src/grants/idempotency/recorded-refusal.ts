/** A refusal as the record of an idempotency key has it, on every face. */
import { ERROR_CODES, LeaseError, type ErrorCode } from '../../kernel/errors/index.ts';

export interface RecordedRefusal {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details: Record<string, unknown>;
  };
}

/**
 * Not answers to a request: its key is another request's, its caller has gone and may come back, or
 * something broke.
 */
const NO_ANSWERS: readonly ErrorCode[] = [
  'request.idempotency_reused',
  'lease.wait_cancelled',
  'internal.error',
];

/** Errors that were made of a record: what they say is recorded. */
const FROM_RECORDS = new WeakSet<LeaseError>();

/**
 * What is to be recorded of an error that ends a request; undefined when nothing is, because the caller is meant to
 * send the same request again, or because it comes from the request's record.
 */
export function refusalOf(error: unknown): RecordedRefusal | undefined {
  if (!(error instanceof LeaseError) || error.retryable || NO_ANSWERS.includes(error.code)) {
    return undefined;
  }
  if (FROM_RECORDS.has(error)) return undefined;
  const { code, message, details } = error;
  return { error: { code, message, details: { ...details } } };
}

/** The error of a refusal that was recorded, if that is what an answer is. */
export function refusalIn(answer: unknown): LeaseError | undefined {
  if (typeof answer !== 'object' || answer === null || !('error' in answer)) return undefined;
  const { code, message, details } = (answer as RecordedRefusal).error;
  const known = code in ERROR_CODES ? (code as ErrorCode) : 'internal.error';
  const error = new LeaseError(known, message, { details });
  FROM_RECORDS.add(error);
  return error;
}
