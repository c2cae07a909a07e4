/** What the exit code of every command means. Scripts rely on it. */
export const EXIT_CODES = {
  /** It was done, or shown. */
  done: 0,
  /** Leasehold answered, and refused: an error code, or a check that found something wrong. */
  refused: 1,
  /** The command line, or a value in the environment, is wrong. Nothing was sent. */
  usage: 2,
  /** No controller answered, or its database did not. */
  unreachable: 3,
} as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];
