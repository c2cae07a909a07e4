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
 * What `leasehold leases run` ends with besides: otherwise its exit code is that of the command. They
 * are those of `timeout`, `env` and shells for the same things.
 */
export const RUN_EXIT_CODES = {
  /** The command was stopped, or cannot be trusted to have stopped in time, because of its lease. */
  lost: 125,
  notExecutable: 126,
  notFound: 127,
} as const;

/** A process that a signal has ended, as shells number it: 128 and the number of the signal. */
export const SIGNAL_EXIT_CODE = 128;
