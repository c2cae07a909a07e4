import { fork, type ChildProcess } from 'node:child_process';
import { CliFailure, RUN_EXIT_CODES } from '../failures.ts';
import { signalSession } from '../processes.ts';
import type {
  CommandEnd,
  GuardDeadlines,
  GuardOrder,
  GuardReport,
  StopCause,
} from './guard-protocol.ts';

/** What a guard is asked to run. */
interface GuardedCommand {
  readonly command: readonly string[];
  /** Added to the environment of the guard. */
  readonly environment: Readonly<Record<string, string>>;
  readonly deadlines: GuardDeadlines;
  /** Called for each stop, as the guard begins it. */
  readonly onStopping: (kind: 'soft' | 'hard', cause: StopCause) => void;
}

/** How it ended, and when, by the boot clock. */
type GuardedEnd = CommandEnd & { readonly atMs: number };

/** What is sent to a guard, and what it answers. */
export interface GuardLink {
  /**
   * Waits until it can start a command at once.
   * @throws {CliFailure} `run.not_started`.
   */
  ready(): Promise<void>;
  /**
   * Starts the command.
   * @returns how it ended; when the guard itself was killed, so was the command.
   * @throws {CliFailure} `run.not_started`.
   */
  run(what: GuardedCommand): Promise<GuardedEnd>;
  /** Moves the deadlines; earlier ones, and any after stopping has begun, are ignored. */
  extend(deadlines: GuardDeadlines): void;
  /** Passes a signal on to the command. Fulfilled when it is on its way. */
  signal(signal: NodeJS.Signals): Promise<void>;
  stop(kind: 'soft' | 'hard'): void;
  /** Kills the command, and then its guard: for a guard that does not do its work. */
  kill(): void;
  /** Ends the guard. A command that still runs is stopped by it first. */
  close(): void;
}

/** Starts a guard. `nowMs` reads the boot clock; `env` is its environment, and that of the command. */
export function startGuard(
  program: string,
  { nowMs, env }: { readonly nowMs: () => number; readonly env: NodeJS.ProcessEnv },
): GuardLink {
  const child = fork(program, ['leases', 'guard'], {
    env,
    // A session of its own: what the terminal sends to this process is passed on by this process.
    detached: true,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    execArgv: [],
  });
  let commandPid: number | undefined;
  let onStopping: GuardedCommand['onStopping'] | undefined;
  const reports = listenTo(child, (report) => {
    if (report.type === 'started') commandPid = report.pid;
    if (report.type === 'ended') commandPid = undefined;
    if (report.type === 'stopping') onStopping?.(report.kind, report.cause);
  });
  const killCommand = (): void => {
    if (commandPid !== undefined) signalSession(commandPid, 'SIGKILL');
  };
  const send = (order: GuardOrder): Promise<void> =>
    new Promise((resolve) => {
      if (!child.connected) resolve();
      // A guard that is gone cannot carry out the order; its end is reported.
      else {
        child.send(order, () => resolve());
      }
    });

  return {
    async ready() {
      const { type } = await reports.until('ready');
      if (type === 'gone') throw notStarted('its guard has ended');
    },
    async run({ onStopping: told, ...start }) {
      onStopping = told;
      void send({ type: 'start', ...start });
      const last = await reports.until('ended', 'not_started');
      if (last.type === 'ended') return last;
      killCommand();
      // The kernel kills the command with its guard; the rest was sent the same signal just now.
      if (commandPid !== undefined) return { exitCode: null, signal: 'SIGKILL', atMs: nowMs() };
      throw notStarted(last.type === 'not_started' ? last.problem : 'its guard has ended');
    },
    extend: (deadlines) => void send({ type: 'extend', deadlines }),
    signal: (signal) => send({ type: 'signal', signal }),
    stop: (kind) => void send({ type: 'stop', kind }),
    kill: () => {
      killCommand();
      child.kill('SIGKILL');
    },
    close: () => {
      if (child.connected) child.disconnect();
    },
  };
}

/** Not 1, which means that somebody else holds the lease. */
function notStarted(problem: string): CliFailure {
  return new CliFailure(`The command was not started: ${problem}.`, {
    code: 'run.not_started',
    exitCode: RUN_EXIT_CODES.notExecutable,
  });
}

/** The guard has ended, for whatever reason: it reports nothing more. */
interface GuardGone {
  readonly type: 'gone';
}

/** The guard's reports, to be waited for. */
function listenTo(
  child: ChildProcess,
  onReport: (report: GuardReport) => void,
): { until: (...types: GuardReport['type'][]) => Promise<GuardReport | GuardGone> } {
  const seen: (GuardReport | GuardGone)[] = [];
  const waiting = new Set<() => void>();
  const add = (report: GuardReport | GuardGone): void => {
    seen.push(report);
    for (const look of [...waiting]) look();
  };
  child.on('message', (report: GuardReport) => {
    onReport(report);
    add(report);
  });
  child.once('error', () => add({ type: 'gone' }));
  // Comes after the last message, unlike `exit`.
  child.once('close', () => add({ type: 'gone' }));
  return {
    until: (...types) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = seen.find(({ type }) => type === 'gone' || types.includes(type));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
  };
}
