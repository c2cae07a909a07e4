import type { CommandErrorCode, ErrorCode } from '@leasehold/keys-core';

/** One of the codes of `docs/errors.md`. */
export type FailureCode = ErrorCode | CommandErrorCode;

/** What the exit code of every command means. Scripts rely on it. */
export const EXIT_CODES = {
  /** It was done, or shown. */
  done: 0,
  /** Leasehold answered, and refused: an error code, or a check that found something wrong. */
  refused: 1,
  /** The command line, or a value in the environment, is wrong. Nothing was sent. */
  usage: 2,
  /** No controller answered, or what it needs did not: its database, etcd, another datacenter. */
  unreachable: 3,
  /** What was named does not exist, or may not be seen. */
  notFound: 4,
  /** The token was refused, or its role, its namespaces or its programs do not allow this. */
  notAllowed: 5,
  /** Somebody else holds it, or the one that held it has not gone yet. */
  held: 6,
} as const;

/** For `--help`. */
export const EXIT_CODES_HELP =
  'Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable, 4 not found, 5 not allowed, 6 held by others.';

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** Error codes with another exit code than `refused`; all `….not_found` have `notFound`. */
const EXIT_CODE_OF: Partial<Record<FailureCode, ExitCode>> = {
  'request.invalid': EXIT_CODES.usage,
  'config.invalid': EXIT_CODES.usage,
  'store.unavailable': EXIT_CODES.unreachable,
  'controller.stopping': EXIT_CODES.unreachable,
  'controller.overloaded': EXIT_CODES.unreachable,
  'request.deadline': EXIT_CODES.unreachable,
  'request.outcome_unknown': EXIT_CODES.unreachable,
  'reservation.datacenter_unreachable': EXIT_CODES.unreachable,
  'reservation.store_unreachable': EXIT_CODES.unreachable,
  'peer.refused': EXIT_CODES.unreachable,
  'reservation.unknown_datacenter': EXIT_CODES.notFound,
  'auth.required': EXIT_CODES.notAllowed,
  'auth.forbidden': EXIT_CODES.notAllowed,
  'auth.csrf': EXIT_CODES.notAllowed,
  'drone.not_allowed': EXIT_CODES.notAllowed,
  'spawn.not_allowed': EXIT_CODES.notAllowed,
  'lease.held': EXIT_CODES.held,
  'lease.wait_timeout': EXIT_CODES.held,
  'key.terminating': EXIT_CODES.held,
  'key.holder_unreachable': EXIT_CODES.held,
  'key.tag_mismatch': EXIT_CODES.held,
  'reservation.key_held': EXIT_CODES.held,
};

/** The exit code of a command that failed with this code. */
export function exitCodeFor(code: FailureCode): ExitCode {
  // A procedure that does not exist is no thing that somebody named.
  const isNotFound = code.endsWith('.not_found') && code !== 'request.not_found';
  return EXIT_CODE_OF[code] ?? (isNotFound ? EXIT_CODES.notFound : EXIT_CODES.refused);
}

/**
 * More exit codes of `leasehold leases run`: otherwise its exit code is that of the command.
 * `timeout`, `env` and shells use the same codes for the same things.
 */
export const RUN_EXIT_CODES = {
  /** The command was stopped, or cannot be trusted to have stopped in time, because of its lease. */
  lost: 125,
  notExecutable: 126,
  notFound: 127,
} as const;

/** The exit code of a process that a signal has ended is this plus the signal's number, as in shells. */
export const SIGNAL_EXIT_CODE = 128;
