import type { CliContext } from '../context.ts';
import type { GuardLink } from './guard-link.ts';

/** Handles the signals of this process from now on. */
export function runSignals(
  context: CliContext,
  stopSelf: () => void = () => process.kill(process.pid, 'SIGSTOP'),
) {
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
    /** Aborted by the first signal that ends a process, while there is no command to pass it to. */
    interrupted: interruption.signal,
    /** That signal. */
    get interruptedBy() {
      return interruptedBy;
    },
    /** From now on, signals go to the command. */
    passTo(running: GuardLink) {
      guard = running;
    },
  };
}
