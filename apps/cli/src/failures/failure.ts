import { EXIT_CODES, exitCodeFor, type FailureCode } from './exit-codes.ts';

/**
 * What a command ends with when it could not do what was asked: a sentence that says what is wrong,
 * and a hint that says what to do about it. `code` is what programs read; `exitCode` is one of
 * {@link EXIT_CODES}, or one of the other exit codes of `leases run`.
 */
export class CliFailure extends Error {
  readonly code: FailureCode;
  readonly exitCode: number;
  readonly hint: string | undefined;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly incidentId: string | undefined;

  constructor(
    message: string,
    failure: {
      code: FailureCode;
      exitCode: number;
      hint?: string | undefined;
      retryable?: boolean | undefined;
      details?: Readonly<Record<string, unknown>> | undefined;
      incidentId?: string | undefined;
      cause?: unknown;
    },
  ) {
    super(message, { cause: failure.cause });
    this.name = 'CliFailure';
    this.code = failure.code;
    this.exitCode = failure.exitCode;
    this.hint = failure.hint;
    this.retryable = failure.retryable ?? false;
    this.details = failure.details ?? {};
    this.incidentId = failure.incidentId;
  }
}

/** The command line, or a value in the environment or in a file, is wrong. */
export function usageFailure(message: string, hint?: string): CliFailure {
  return new CliFailure(message, { code: 'cli.usage', exitCode: EXIT_CODES.usage, hint });
}

/** Leasehold, or this machine, refused what was asked. */
export function refusal(code: FailureCode, message: string, hint?: string): CliFailure {
  return new CliFailure(message, { code, exitCode: exitCodeFor(code), hint });
}

/** Nobody answered. */
export function unreachable(message: string, hint: string, cause?: unknown): CliFailure {
  return new CliFailure(message, {
    code: 'cli.unreachable',
    exitCode: EXIT_CODES.unreachable,
    hint,
    retryable: true,
    cause,
  });
}
