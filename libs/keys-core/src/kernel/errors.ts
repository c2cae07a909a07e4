import { ERROR_CODES, type ErrorCode } from './error-codes.ts';
import { LIMITS } from './limits.ts';

export { COMMAND_ERROR_CODES, type CommandErrorCode } from './command-codes.ts';
export { ERROR_CODES, type ErrorCode } from './error-codes.ts';

/**
 * What Leasehold throws when something other than an expected refusal happened. The code is the
 * type; `message` is public and never holds a secret; `cause` is for the log.
 */
export class LeaseError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** The datacenter that has answered with it; undefined for this one. */
  readonly from: string | undefined;

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: Record<string, unknown>; cause?: unknown; from?: string } = {},
  ) {
    super(message ?? ERROR_CODES[code].text, { cause: options.cause });
    this.name = 'LeaseError';
    this.code = code;
    this.details = options.details ?? {};
    this.from = options.from;
  }

  /** Whether the same request may succeed if it is sent again unchanged. */
  get retryable(): boolean {
    return ERROR_CODES[this.code].retryable;
  }
}

/** The error for a field of a request. @param problem reads on after its name: `must be …`. */
export function invalidField(field: string, problem: string, cause?: unknown): LeaseError {
  return new LeaseError('request.invalid', `${field} ${problem}`, { details: { field }, cause });
}

/** A state that must not occur: a defect of Leasehold, not of its caller. */
class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** @throws {InvariantError} when the condition does not hold. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** Ends an exhaustive `switch`. */
export function assertNever(value: never): never {
  throw new InvariantError(`unexpected value ${JSON.stringify(value)}`);
}

const encoder = new TextEncoder();

/**
 * What was thrown, as the text that is kept of it: at most `reasonBytesMax` bytes, well-formed and without
 * NUL. Never throws, for any value: other people's code throws anything.
 */
export function errorText(thrown: unknown): string {
  // Cut twice: none of a text that is far too long is copied.
  const text = messageOf(thrown)
    .slice(0, 2 * LIMITS.reasonBytesMax)
    .replaceAll('\0', '')
    .toWellFormed();
  const { read } = encoder.encodeInto(text, new Uint8Array(LIMITS.reasonBytesMax));
  return text.slice(0, read);
}

/** The message of an error, or any other value as text. Never throws. */
export function messageOf(thrown: unknown): string {
  try {
    const said: unknown = thrown instanceof Error ? thrown.message : thrown;
    return typeof said === 'string' ? said : String(said);
  } catch {
    return 'an error without a text';
  }
}
