import { fork, type ChildProcess } from 'node:child_process';
import { refusal } from '../failure.ts';
import type {
  CommandEnd,
  GuardDeadlines,
  GuardOrder,
  GuardReport,
  StopCause,
} from './guard-protocol.ts';
import { signalGroup } from './launch-command.ts';

/** What is sent to a guard, and what it answers. */
export interface GuardLink {
  /**
   * Starts the command.
   * @returns how it ended; when the guard itself was killed, so was the command.
   * @throws {CliFailure} `run.not_started`.
   */
  run(start: {
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
    readonly deadlines: GuardDeadlines;
  }): Promise<CommandEnd>;
  /** Moves the deadlines; earlier ones, and any after stopping has begun, are not taken. */
  extend(deadlines: GuardDeadlines): void;
  signal(signal: NodeJS.Signals): void;
  stop(kind: 'soft' | 'hard'): void;
  /** Kills the command without the guard: for one that does not do its work. */
  kill(): void;
  /** Ends the guard. A command that still runs is stopped by it first. */
  close(): void;
}

/** Told of each stop, as the guard begins it. */
export type OnStopping = (kind: 'soft' | 'hard', cause: StopCause) => void;

/**
 * Starts a guard and waits until it is ready.
 * @throws {CliFailure} `run.not_started`.
 */
export async function startGuard(program: string, onStopping: OnStopping): Promise<GuardLink> {
  const child = fork(program, ['leases', 'guard'], {
    // A session of its own: what the terminal sends to this process is passed on by this process.
    detached: true,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    execArgv: [],
  });
  let commandPid: number | undefined;
  const reports = listenTo(child, (report) => {
    if (report.type === 'started') commandPid = report.pid;
    if (report.type === 'ended') commandPid = undefined;
    if (report.type === 'stopping') onStopping(report.kind, report.cause);
  });
  const kill = (): void => {
    if (commandPid !== undefined) signalGroup(commandPid, 'SIGKILL');
  };
  const send = (order: GuardOrder): void => {
    if (child.connected) child.send(order, () => undefined);
  };

  await reports.first(({ type }) => type === 'ready');
  return {
    async run(start) {
      send({ type: 'start', ...start });
      try {
        const report = await reports.first(
          ({ type }) => type === 'ended' || type === 'not_started',
        );
        if (report.type === 'ended') return { exitCode: report.exitCode, signal: report.signal };
        const problem = report.type === 'not_started' ? report.problem : report.type;
        throw refusal('run.not_started', `The command was not started: ${problem}.`);
      } finally {
        kill();
      }
    },
    extend: (deadlines) => {
      send({ type: 'extend', deadlines });
    },
    signal: (signal) => {
      send({ type: 'signal', signal });
    },
    stop: (kind) => {
      send({ type: 'stop', kind });
    },
    kill,
    close: () => {
      if (child.connected) child.disconnect();
    },
  };
}

/** The guard's reports, to be waited for; its own end is the last of them. */
function listenTo(
  child: ChildProcess,
  onReport: (report: GuardReport) => void,
): { first: (is: (report: GuardReport) => boolean) => Promise<GuardReport> } {
  const seen: GuardReport[] = [];
  const waiting = new Set<() => void>();
  let gone: string | undefined;
  const wake = (): void => {
    for (const look of waiting) look();
  };
  child.on('message', (report: GuardReport) => {
    seen.push(report);
    onReport(report);
    wake();
  });
  child.once('error', (error) => {
    gone = error.message;
    wake();
  });
  child.once('close', (code, signal) => {
    gone = `its guard ended, with ${signal ?? String(code)}`;
    wake();
  });
  return {
    first: (is) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = seen.find(is);
          if (found === undefined && gone === undefined) return;
          waiting.delete(look);
          if (found !== undefined) resolve(found);
          else reject(refusal('run.not_started', `The command cannot be run: ${gone ?? ''}.`));
        };
        waiting.add(look);
        look();
      }),
  };
}
