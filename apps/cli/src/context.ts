/** Where a command writes and what it knows of its surroundings; passed in, so that tests control it. */
export interface CliContext {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Reads the standard input to its end. */
  readonly readStdin: () => Promise<string>;
  /** Asks a person for a secret, which is not shown; undefined when nobody is there to answer. */
  readonly askSecret: (question: string) => Promise<string | undefined>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether people read the output as it comes: it may then use colours. */
  readonly isTerminal: boolean;
  /**
   * Aborted when this process is asked to stop. Signals are handled only from the first call on: a
   * command that never calls it ends at once, as programs do.
   */
  readonly signal: () => AbortSignal;
  /**
   * Reports every signal that this process is sent, and acts on none of them: for a command that
   * passes them on. That includes SIGTSTP and SIGCONT: the listener must stop this process itself.
   */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => void;
}
