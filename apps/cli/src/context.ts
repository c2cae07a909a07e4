/** Where a command writes and what it knows of its surroundings; passed in, so that tests own it. */
export interface CliContext {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether people read it: colours are then used. */
  readonly isTerminal: boolean;
  /** Aborted when the person at the terminal asks to stop. */
  readonly signal: AbortSignal;
}
