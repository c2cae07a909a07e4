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
} as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

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
