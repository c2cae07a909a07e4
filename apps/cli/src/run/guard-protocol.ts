/**
 * How a command that runs under a lease is guarded.
 *
 *   leasehold leases run ──IPC──▶ guard ──parent of──▶ the command, leader of a session
 *
 * The command line holds and renews the lease; the guard, a process of its own, runs the command and
 * ends it in time, whatever becomes of the command line:
 *
 * - SIGTERM to the session at `softAtMs`, SIGKILL at `hardAtMs`. Every renewal moves both.
 * - The channel closes when the command line is killed: SIGTERM at once, SIGKILL at `hardAtMs`.
 * - A command line that is stopped, or hangs, moves no deadline: they pass.
 * - After the machine has slept, the guard reads the clock before it does anything else.
 * - When the guard itself is killed, the kernel kills the command (where `setpriv` is installed), and
 *   the command line kills the rest of the session. The command begins only once the command line knows it.
 *
 * With `isForCommandAlone`, signals that a program may handle go to the command itself, which stops what it has
 * started; SIGKILL, SIGSTOP and SIGCONT still go to its whole session.
 *
 * Stopping is final: no later deadline is accepted once SIGTERM was sent. What is left of the session when
 * the command has ended is killed, so that nothing of it runs on when the lease is given back.
 *
 * Both processes read one clock, the machine's time since boot: so readings may be sent.
 */
export interface GuardDeadlines {
  /** When the command is asked to end, by the boot clock. */
  readonly softAtMs: number;
  /** When it is killed. */
  readonly hardAtMs: number;
}

/** Why a command was stopped. */
export type StopCause =
  /** Its deadline passed without a renewal. */
  | 'deadline'
  /** The command line asked for it. */
  | 'asked'
  /** The command line is gone. */
  | 'orphaned';

export type GuardOrder =
  | {
      readonly type: 'start';
      readonly command: readonly string[];
      /** Added to the environment that the guard has. */
      readonly environment: Readonly<Record<string, string>>;
      readonly deadlines: GuardDeadlines;
      /** Whether signals are for the command alone, instead of its whole session. */
      readonly isForCommandAlone: boolean;
    }
  | { readonly type: 'extend'; readonly deadlines: GuardDeadlines }
  | { readonly type: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly type: 'stop'; readonly kind: 'soft' | 'hard' };

export type GuardReport =
  | { readonly type: 'ready' }
  | { readonly type: 'started'; readonly pid: number }
  | { readonly type: 'stopping'; readonly kind: 'soft' | 'hard'; readonly cause: StopCause }
  /** `atMs` by the boot clock: the command line may learn of it much later. */
  | ({ readonly type: 'ended'; readonly atMs: number } & CommandEnd)
  /** It could not be started, or its time was over before it was. */
  | { readonly type: 'not_started'; readonly problem: string };

/** How a command ended, as its parent saw it. One of the two is null. */
export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}
