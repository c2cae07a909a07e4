import { type ChildProcess, fork } from 'node:child_process';
import { constants } from 'node:os';
import { createLeasehold, LeaseLost, LeaseRevoked, LeaseRevoking } from '@leasehold/client';
import {
  createBootClock,
  type Environment,
  fileVariableOf,
  SECRETS,
  TICK_MS,
  type TickingClock,
} from '@leasehold/service-kit';
import { pathOfPart } from '../apps.ts';
import type { Cli, CliContext } from '../cli.ts';
import type { Access } from '../contexts.ts';
import { CliFailure, RUN_EXIT_CODES, SIGNAL_EXIT_CODE } from '../failures.ts';
import { durationText, printable } from '../output/text.ts';
import { signalSession } from '../processes.ts';
import { scopesText } from '../scope.ts';
import {
  acquire,
  type Acquired,
  type LeaseRequest,
  leaseVariables,
  waitingTeller,
} from './acquire.ts';
import type {
  CommandEnd,
  GuardDeadlines,
  GuardOrder,
  GuardReport,
  StopCause,
} from './guard-protocol.ts';

/** A command and the lease that it runs under. */
interface RunRequest extends LeaseRequest {
  readonly command: readonly string[];
  readonly graceMs: number;
  /** Whether the command gets the token. */
  readonly isTokenPassed: boolean;
  /** Whether the command alone gets signals, instead of its whole session. */
  readonly isSignalledAlone: boolean;
}

/**
 * Takes the lease, runs the command, gives the lease back, and ends with the command's exit code.
 * @throws {CliFailure} when the lease was not granted or was lost, or the command not started.
 */
export async function runWithLease(cli: Cli, request: RunRequest): Promise<void> {
  const access = cli.access();
  const { urls, token } = access;
  const signals = runSignals(cli.context);
  const clock = createBootClock();
  const guard = startGuard(pathOfPart('cli'), {
    nowMs: () => clock.nowMs(),
    env: {
      ...commandEnvironment(cli.context.environment, request),
      ...(request.isTokenPassed ? accessVariables(access) : {}),
    },
  });
  try {
    // Closing it waits for the release of what was given up.
    await using leasehold = createLeasehold({ url: urls, token, clock });
    let lease: Acquired;
    try {
      // Over HTTP first, which fails at once when no controller answers. Another datacenter is asked for its lease alone.
      const router = request.environment === undefined ? 'leases' : 'environments';
      const signal = signals.interrupted;
      await cli.client()[router].get.query(request.scopes[0], { signal });
      // Starting the guard must not use up time of the lease.
      await guard.ready();
      lease = await acquire(leasehold, request, {
        signal: signals.interrupted,
        onWaiting: waitingTeller(request.scopes[0], (text) => cli.note(text)),
      });
    } catch (error) {
      if (signals.interruptedBy === undefined) throw error;
      cli.note(`gave up waiting for ${scopesText(request.scopes)}.`);
      cli.exitCode = exitCodeOf({ exitCode: null, signal: signals.interruptedBy });
      return;
    }
    signals.passTo(guard);
    const end = await runAndRelease(cli, request, { lease, guard, clock });
    cli.exitCode = exitCodeOf(end);
  } finally {
    guard.close();
  }
}

interface Running {
  readonly lease: Acquired;
  readonly guard: GuardLink;
  readonly clock: TickingClock;
}

async function runAndRelease(cli: Cli, request: RunRequest, running: Running): Promise<RunEnd> {
  const { lease } = running;
  const name = scopesText(request.scopes);
  let end: RunEnd | undefined;
  let released: string;
  try {
    end = await runUnderLease({
      ...running,
      command: request.command,
      isForCommandAlone: request.isSignalledAlone,
      graceMs: request.graceMs,
      environment: {
        ...leaseVariables(lease.grants),
        ...(request.scopes.length > 1
          ? {}
          : {
              LEASEHOLD_LEASE_NAMESPACE: request.scopes[0].namespace,
              LEASEHOLD_LEASE_KEY: request.scopes[0].name,
            }),
      },
      onStopping: (stop, leftMs) => cli.note(stoppingText(name, stop, leftMs)),
    });
  } finally {
    const leftMs = lease.remainingMs();
    released = await lease.release(
      end?.exitCode === 0 && end.stop === undefined ? 'ok' : 'failed',
      end === undefined ? 'not started' : endText(end),
    );
    if (released === 'unknown') cli.note(notReleasedText(request, leftMs));
  }
  if (end.stop !== undefined) throw lostFailure(request, end, end.stop);
  // It ended by itself; the controller knows best whether the lease was still held then.
  if (isGone(released, end)) throw goneFailure(request, end, released);
  return end;
}

/** A lease that ran out after the command had ended is no loss. */
function isGone(released: string, end: RunEnd): boolean {
  // A release of one's own that is sent again is answered with `released`: this is somebody else's, while the command ran.
  if (['revoked', 'not_found', 'already_released'].includes(released)) return true;
  return (released === 'expired' || released === 'superseded') && !end.isInTime;
}

interface RunOptions {
  readonly command: readonly string[];
  readonly isForCommandAlone: boolean;
  /** Added to the environment of the command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly lease: Acquired;
  readonly guard: GuardLink;
  /** How long before the lease is lost the command is asked to stop. */
  readonly graceMs: number;
  /** The boot clock, which the guard reads too. */
  readonly clock: TickingClock;
  /** Called once, as a stop begins, with the time that the command has left. */
  readonly onStopping: (stop: Stop, leftMs: number) => void;
}

/** The guard looks at the clock once per tick, so it is told to act by this much earlier. */
const MARGIN_MS = 2 * TICK_MS;

/**
 * Runs a command under a lease, and ends it before the lease is lost: gently when it is not renewed
 * any more, at once when it is lost already.
 * @throws {CliFailure} `run.not_started`.
 */
async function runUnderLease(options: RunOptions): Promise<RunEnd> {
  const { command, environment, lease, clock, guard, graceMs } = options;
  const deadlinesNow = (): GuardDeadlines => {
    // Read before the remaining time, so that the sum is never too late.
    const nowMs = clock.nowMs();
    const loseAtMs = nowMs + lease.remainingMs();
    return { softAtMs: loseAtMs - graceMs, hardAtMs: loseAtMs - MARGIN_MS };
  };
  let sent = deadlinesNow();
  const stops: Stop[] = [];
  // What the guard does counts, not what it was asked to do: the command may have ended before.
  const done: ('soft' | 'hard')[] = [];
  const begin = (stop: Stop): void => {
    if (stops.push(stop) === 1) options.onStopping(stop, sent.hardAtMs - clock.nowMs());
  };

  const over = new AbortController();
  const whenAborted = (signal: AbortSignal, act: () => void): void => {
    if (signal.aborted) act();
    else signal.addEventListener('abort', act, { signal: over.signal });
  };
  const stopTicking = clock.onTick((nowMs) => {
    const next = deadlinesNow();
    if (next.hardAtMs > nowMs && next.hardAtMs > sent.hardAtMs + TICK_MS) {
      sent = next;
      guard.extend(sent);
    }
    // A guard that is this late does not work: the command is killed without it.
    if (nowMs >= sent.hardAtMs + MARGIN_MS) {
      done.push('hard');
      begin({ why: 'deadline' });
      guard.kill();
    }
  });
  try {
    const ended = guard.run({
      command,
      isForCommandAlone: options.isForCommandAlone,
      environment,
      deadlines: sent,
      onStopping: (kind, cause) => {
        done.push(kind);
        if (cause === 'deadline') begin({ why: 'deadline' });
      },
    });
    whenAborted(lease.revoking, () => {
      begin({ why: 'revoking', reason: lease.revoking.reason });
      guard.stop('soft');
    });
    whenAborted(lease.signal, () => {
      begin({ why: 'lost', reason: lease.signal.reason });
      guard.stop('hard');
    });
    const { exitCode, signal, atMs } = await ended;
    const isInTime = atMs <= sent.hardAtMs + MARGIN_MS;
    return { exitCode, signal, stop: done.length > 0 ? stops[0] : undefined, isInTime };
  } finally {
    over.abort();
    stopTicking();
  }
}

/** Handles the signals of this process from now on. */
function runSignals(
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

/** Not Leasehold's alone: a command may have a database of its own. */
const OF_OTHERS: readonly string[] = ['DATABASE_URL'];
const TOKEN = 'LEASEHOLD_TOKEN';

/**
 * The environment of a command that runs under a lease: that of this process without Leasehold's secrets, so that
 * neither the command nor what it starts and logs has them. `isTokenPassed` leaves the token in.
 */
export function commandEnvironment(
  environment: Environment,
  { isTokenPassed }: { readonly isTokenPassed: boolean },
): Environment {
  const kept = isTokenPassed ? [...OF_OTHERS, TOKEN] : OF_OTHERS;
  const withheld = new Set(
    SECRETS.filter((name) => !kept.includes(name)).flatMap((name) => [name, fileVariableOf(name)]),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !withheld.has(name)));
}

/** What changes in the environment of a command that is to call the same controllers. */
export function accessVariables({ urls, token, from }: Access): Environment {
  if (from.urls === 'LEASEHOLD_URL') return {};
  return {
    LEASEHOLD_URL: urls.join(','),
    LEASEHOLD_TOKEN: token,
    // It would be of another installation, and both at once are refused.
    [fileVariableOf(TOKEN)]: undefined,
    // It would win over the addresses.
    LEASEHOLD_CONTEXT: undefined,
  };
}

/** Why a command was stopped. */
type Stop =
  { readonly why: 'deadline' } | { readonly why: 'lost' | 'revoking'; readonly reason: unknown };

/** How a command ended, and why it was stopped, if it was. */
interface RunEnd extends CommandEnd {
  readonly stop: Stop | undefined;
  /** Whether it had ended before the holder's own deadline. */
  readonly isInTime: boolean;
}

/** The exit code that passes a command's end on: its own, or 128 plus the number of its signal. */
function exitCodeOf({ exitCode, signal }: CommandEnd): number {
  return signal === null ? (exitCode ?? 0) : SIGNAL_EXIT_CODE + constants.signals[signal];
}

/** How a command ended: `ended with exit code 3`, `was ended by SIGKILL`. */
function endText({ exitCode, signal }: CommandEnd): string {
  return signal === null ? `ended with exit code ${String(exitCode)}` : `was ended by ${signal}`;
}

/** Why a command is being stopped: a clause that follows the name of its lease. */
function stopText(stop: Stop): string {
  if (stop.why === 'deadline') return 'could not be renewed in time';
  const { reason } = stop;
  if (reason instanceof LeaseRevoking) return `is being revoked${noteText(reason.note)}`;
  if (reason instanceof LeaseRevoked) return `was revoked${noteText(reason.note)}`;
  if (reason instanceof LeaseLost) return `${LOSS_TEXT[reason.reason]}${causeText(reason)}`;
  return stop.why === 'lost' ? 'was lost' : 'will not be renewed';
}

const LOSS_TEXT: Record<LeaseLost['reason'], string> = {
  expired: 'has expired',
  superseded: 'is held by somebody else now',
  revoked: 'was revoked',
  released: 'was released by somebody who knows its token',
  unreachable: 'was lost: it could not be renewed in time',
};

/** Why it was not renewed, as far as the last try has shown. */
function causeText({ cause }: LeaseLost): string {
  const [why = ''] = cause instanceof Error ? cause.message.split('\n', 1) : [];
  return why === '' ? '' : ` (${printable(why)})`;
}

function noteText(note: string | null): string {
  return note === null ? '' : ` (${printable(note)})`;
}

/** The message as a stop begins. */
function stoppingText(name: string, stop: Stop, leftMs: number): string {
  const act =
    stop.why === 'lost'
      ? 'the command is killed'
      : `the command was sent SIGTERM, and is killed in ${durationText(leftMs)}`;
  return `${name} ${stopText(stop)}; ${act}.`;
}

/** The message when no controller answered a release. */
function notReleasedText(request: RunRequest, leftMs: number): string {
  const name = scopesText(request.scopes);
  return `${name} could not be released: no controller answered. ${expiryText(request, leftMs)}.`;
}

function expiryText({ scopes, ttlMs }: RunRequest, leftMs: number): string {
  const isOne = scopes.length === 1;
  const text = isOne ? 'It expires' : 'They expire';
  if (leftMs > 0) return `${text} in about ${durationText(leftMs)}`;
  if (isOne) return text;
  // One of them is lost; the others were renewed until now.
  return `What is still held of them expires in at most ${durationText(ttlMs)}`;
}

/** The failure of a run whose command was stopped because of its lease. */
function lostFailure(request: RunRequest, end: RunEnd, stop: Stop): CliFailure {
  const why =
    stop.why === 'lost' && stop.reason instanceof LeaseLost ? stop.reason.reason : stop.why;
  const message = `${scopesText(request.scopes)} ${stopText(stop)}, and the command ${endText(end)}.`;
  return lost(request, message, end, why);
}

/** The failure of a run whose lease was gone before its command ended, without a notice. */
function goneFailure(request: RunRequest, end: RunEnd, released: string): CliFailure {
  return lost(
    request,
    `${scopesText(request.scopes)} was ${GONE_TEXT[released] ?? released} while the command ran, which ${endText(end)}.`,
    end,
    released,
  );
}

const GONE_TEXT: Readonly<Record<string, string>> = {
  not_found: 'not known any more',
  already_released: 'released by somebody who knows its token',
  superseded: 'given to somebody else',
  expired: 'over',
};

function lost(
  { environment }: RunRequest,
  message: string,
  { exitCode, signal }: CommandEnd,
  why: string,
): CliFailure {
  const group = environment === undefined ? 'leases' : 'env';
  return new CliFailure(message, {
    code: 'lease.lost',
    exitCode: RUN_EXIT_CODES.lost,
    hint: `The work may be incomplete. \`leasehold ${group} history\` shows what happened to the lease.`,
    details: { why, exitCode, signal },
  });
}

/** What a guard is asked to run. */
interface GuardedCommand {
  readonly command: readonly string[];
  /** Added to the environment of the guard. */
  readonly environment: Readonly<Record<string, string>>;
  readonly deadlines: GuardDeadlines;
  readonly isForCommandAlone: boolean;
  /** Called for each stop, as the guard begins it. */
  readonly onStopping: (kind: 'soft' | 'hard', cause: StopCause) => void;
}

/** How it ended, and when, by the boot clock. */
type GuardedEnd = CommandEnd & { readonly atMs: number };

/** What is sent to a guard, and what it answers. */
interface GuardLink {
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
function startGuard(
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
      if (type === 'gone') throw startFailure('its guard has ended');
    },
    async run({ onStopping: told, ...start }) {
      onStopping = told;
      void send({ type: 'start', ...start });
      const last = await reports.until('ended', 'not_started');
      if (last.type === 'ended') return last;
      killCommand();
      // The kernel kills the command with its guard; the rest was sent the same signal just now.
      if (commandPid !== undefined) return { exitCode: null, signal: 'SIGKILL', atMs: nowMs() };
      throw startFailure(last.type === 'not_started' ? last.problem : 'its guard has ended');
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
function startFailure(problem: string): CliFailure {
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
