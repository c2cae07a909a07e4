export { COMMAND_ERROR_CODES, type CommandErrorCode } from './command-codes.ts';
export { ERROR_CODES, type ErrorCode } from './error-codes.ts';
export { InvariantError, LeaseError, assertNever, invariant } from './lease-error.ts';
