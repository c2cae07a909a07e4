/** Where a command writes and what it knows of its surroundings; passed in, so that tests own it. */
export interface CliContext {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Everything that comes on the standard input, to its end. */
  readonly readStdin: () => Promise<string>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether people read the output as it comes: it may then use colours. */
  readonly isTerminal: boolean;
  /**
   * Aborted when somebody asks this process to stop. Only from the first call on are the signals
   * taken: a command that never asks ends at once, as programs do.
   */
  readonly signal: () => AbortSignal;
  /**
   * Tells of every signal that this process is sent, each time, and takes none of them itself: for a
   * command that passes them on. SIGTSTP and SIGCONT too: who is stopped stops itself.
   */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => void;
}
