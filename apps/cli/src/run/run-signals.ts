import type { CliContext } from '../context.ts';
import type { GuardLink } from './guard-link.ts';

/** What becomes of the signals that a run is sent. */
export interface RunSignals {
  /** Aborted by the first signal that ends a process, while there is no command to pass it to. */
  readonly interrupted: AbortSignal;
  /** That signal. */
  readonly interruptedBy: NodeJS.Signals | undefined;
  /** From now on, signals go to the command. */
  passTo(guard: GuardLink): void;
}

/** Handles the signals of this process from now on. */
export function runSignals(
  context: CliContext,
  stopSelf: () => void = () => process.kill(process.pid, 'SIGSTOP'),
): RunSignals {
  const interruption = new AbortController();
  let interruptedBy: NodeJS.Signals | undefined;
  let guard: GuardLink | undefined;

  context.onSignal((signal) => {
    if (signal === 'SIGTSTP') {
      // The command first: it must not go on while nobody renews. It has no terminal of its own, so
      // it would ignore SIGTSTP.
      void Promise.resolve(guard?.signal('SIGSTOP')).then(stopSelf);
    } else if (guard !== undefined) {
      void guard.signal(signal);
    } else if (signal !== 'SIGCONT') {
      interruptedBy ??= signal;
      interruption.abort();
    }
  });
  return {
    interrupted: interruption.signal,
    get interruptedBy() {
      return interruptedBy;
    },
    passTo(running) {
      guard = running;
    },
  };
}
