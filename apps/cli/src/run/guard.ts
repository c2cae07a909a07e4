/** The guard of a command that runs under a lease; see the protocol in `guard-protocol.ts`. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { createBootClock, type Environment } from '@leasehold/service-kit';
import { closeInheritedDescriptors } from '@leasehold/service-kit/inherited-descriptors';
import { findCommand, signalSession } from '../processes.ts';
import type {
  CommandEnd,
  GuardDeadlines,
  GuardOrder,
  GuardReport,
  StopCause,
} from './guard-protocol.ts';

/** The processes of one command; {@link launchCommand} in production. */
interface CommandSession {
  readonly pid: number;
  /** Lets the command begin: until then, none of it runs. */
  begin(): void;
  /** Sends a signal to all of them, or to the first alone. Nothing happens when it is gone. */
  signal(signal: NodeJS.Signals, to: 'session' | 'command'): void;
  /** Fulfilled when the command has ended and the rest of its session is gone. */
  readonly ended: Promise<CommandEnd>;
}

interface GuardOptions {
  /** Reads the boot clock. */
  readonly nowMs: () => number;
  readonly launch: (
    command: readonly string[],
    environment: Readonly<Record<string, string>>,
  ) => Promise<CommandSession>;
  readonly report: (report: GuardReport) => void;
}

/** Runs one command and ends it in time. */
export class Guard {
  readonly #options: GuardOptions;
  #isStarted = false;
  #session: CommandSession | undefined;
  #deadlines: GuardDeadlines = { softAtMs: -Infinity, hardAtMs: -Infinity };
  #stopping: 'soft' | 'hard' | undefined;
  #isForCommandAlone = false;
  /** Signals that came before there was a command to send them to. */
  readonly #early: NodeJS.Signals[] = [];

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** Carries out an order. What is due by the clock comes first. */
  take(order: GuardOrder): void {
    this.tick();
    switch (order.type) {
      case 'start':
        void this.#start(order);
        return;
      case 'extend':
        this.#extend(order.deadlines);
        return;
      case 'signal':
        if (this.#session === undefined) this.#early.push(order.signal);
        else this.#send(this.#session, order.signal);
        return;
      case 'stop':
        this.#stop(order.kind, 'asked');
    }
  }

  /** Stops the command if a deadline has passed. */
  tick(): void {
    const nowMs = this.#options.nowMs();
    if (nowMs >= this.#deadlines.hardAtMs) this.#stop('hard', 'deadline');
    else if (nowMs >= this.#deadlines.softAtMs) this.#stop('soft', 'deadline');
  }

  /** The command line is gone: nobody renews any more. @returns whether a command still runs. */
  orphaned(): boolean {
    this.tick();
    this.#stop('soft', 'orphaned');
    return this.#isStarted;
  }

  async #start(order: GuardOrder & { type: 'start' }): Promise<void> {
    if (this.#isStarted) return;
    const { report, nowMs, launch } = this.#options;
    if (nowMs() >= order.deadlines.softAtMs) {
      report({ type: 'not_started', problem: 'the lease had expired before it could be started' });
      return;
    }
    this.#isStarted = true;
    this.#deadlines = order.deadlines;
    this.#isForCommandAlone = order.isForCommandAlone;
    let session: CommandSession;
    try {
      session = await launch(order.command, order.environment);
    } catch (error) {
      this.#isStarted = false;
      report({
        type: 'not_started',
        problem: error instanceof Error ? error.message : String(error),
      });
      return;
    }
    this.#session = session;
    // It is on its way when this returns: nothing begins that the command line could not end without the guard.
    report({ type: 'started', pid: session.pid });
    // Signals and stops that came during the start have not reached it.
    if (this.#stopping !== undefined) this.#send(session, 'SIGKILL');
    session.begin();
    for (const signal of this.#early.splice(0)) this.#send(session, signal);
    this.tick();
    const end = await session.ended;
    this.#session = undefined;
    this.#isStarted = false;
    report({ type: 'ended', atMs: nowMs(), ...end });
  }

  #extend(deadlines: GuardDeadlines): void {
    if (this.#stopping !== undefined || deadlines.hardAtMs <= this.#deadlines.hardAtMs) return;
    this.#deadlines = deadlines;
  }

  #stop(kind: 'soft' | 'hard', cause: StopCause): void {
    if (!this.#isStarted || this.#stopping === 'hard' || this.#stopping === kind) return;
    this.#stopping = kind;
    this.#options.report({ type: 'stopping', kind, cause });
    if (this.#session === undefined) return;
    if (kind === 'hard') {
      this.#send(this.#session, 'SIGKILL');
      return;
    }
    this.#send(this.#session, 'SIGTERM');
    // A command that Ctrl-Z has stopped gets the signal only when it continues.
    this.#send(this.#session, 'SIGCONT');
  }

  #send(session: CommandSession, signal: NodeJS.Signals): void {
    const isForAll = !this.#isForCommandAlone || FOR_ALL.has(signal);
    session.signal(signal, isForAll ? 'session' : 'command');
  }
}

/** What nothing of a session may escape. */
const FOR_ALL: ReadonlySet<NodeJS.Signals> = new Set(['SIGKILL', 'SIGSTOP', 'SIGCONT']);

/** The prefix with which the kernel kills the command when the guard dies; empty if it cannot. */
type DeathSignal = readonly string[];

const PROBE_TIMEOUT_MS = 5_000;

/** Finds out by trying whether `setpriv` can arm a parent-death signal: BusyBox's cannot. */
async function findDeathSignal(searchPath: string): Promise<DeathSignal> {
  const setpriv = findCommand('setpriv', searchPath);
  if (setpriv.outcome !== 'found') return [];
  const command = ['--pdeathsig', 'KILL', '--'];
  const works = await new Promise<boolean>((answer) => {
    execFile(setpriv.path, [...command, 'true'], { timeout: PROBE_TIMEOUT_MS }, (error) =>
      answer(error === null),
    );
  });
  return works ? [setpriv.path, ...command] : [];
}

/**
 * Waits for a line and then becomes the command. If the guard is killed before it sends that line, the command line
 * may not know the command, and could not end what it started: then the command never runs.
 * `read` gets a name that no environment has: a command would find its own variable of that name emptied.
 */
const GATE = 'read -r LEASEHOLD_GATE <&3 && exec 3<&- "$@"';

/** Names that every shell hands on: dash and ash drop any other. Nothing can set a variable without a name. */
const NAME_OF_SHELL = /^(?:[A-Za-z_]\w*)?$/u;
/** Begins the names under which the gate is given what it would drop. */
const CARRIER = 'LEASEHOLD_GATE_';
const ENV_PROGRAM = '/usr/bin/env';

/** A command behind its gate. */
interface Gated {
  readonly words: readonly string[];
  readonly environment: Environment;
}

/**
 * Puts the gate before a command. Variables that its shell would drop, such as `a.b` or a function that bash exports,
 * come to it whole, as the values of others, and `env` sets them behind it.
 */
function gateCommand(
  command: readonly string[],
  environment: Environment,
  envProgram: string,
): Gated {
  const entries = Object.entries(environment);
  const dropped = entries.filter(
    ([name, value]) => value !== undefined && !NAME_OF_SHELL.test(name),
  );
  if (dropped.length === 0) {
    return { words: ['/bin/sh', '-c', GATE, 'leasehold', ...command], environment };
  }
  const carried = dropped.map(([name, value = ''], place): [string, string] => [
    `${CARRIER}${String(place)}`,
    `${name}=${value}`,
  ]);
  const names = carried.map(([name]) => name);
  // `env` takes a word with a "=" for a variable, and what follows it for the command.
  const runner = command[0]?.includes('=') === true ? ['nice', '-n', '0'] : [];
  return {
    words: ['/bin/sh', '-c', carryingGate(names, envProgram), 'leasehold', ...runner, ...command],
    environment: Object.fromEntries([
      ...entries.filter(([name]) => NAME_OF_SHELL.test(name)),
      ...carried,
    ]),
  };
}

/**
 * As {@link GATE}, for variables that are values of these names. They may be secrets, and everybody on a machine may read
 * the arguments of a program: so `env` itself inserts them, where it can (GNU, BSD). That of BusyBox cannot: there they
 * are its arguments until it has become the command.
 */
function carryingGate(names: readonly string[], envProgram: string): string {
  // The shell and `env -S` write it alike, and neither splits or reads what it inserts.
  const values = names.map((name) => `"\${${name}}"`).join(' ');
  return `
read -r LEASEHOLD_GATE <&3 || exit
exec 3<&-
if ${envProgram} -S '/bin/sh -c :' >/dev/null 2>&1; then
  exec ${envProgram} -S '-u ${names.join(' -u ')} -- ${values}' "$@"
fi
set -- ${values} "$@"
unset ${names.join(' ')}
exec ${envProgram} -- "$@"`;
}

/**
 * Prepares a command as the leader of a session of its own, with the standard streams of this process and all of
 * `environment`.
 * @throws {Error} when the system cannot start it.
 */
export async function launchCommand(
  command: readonly string[],
  environment: Environment,
  deathSignal: DeathSignal,
  envProgram = ENV_PROGRAM,
): Promise<CommandSession> {
  const gated = gateCommand(command, environment, envProgram);
  const [file = '', ...args] = [...deathSignal, ...gated.words];
  const child = spawn(file, args, {
    env: gated.environment,
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) {
    const [problem] = (await once(child, 'error')) as [Error];
    throw problem;
  }
  const gate = child.stdio[3] as Writable;
  // A command that was killed meanwhile has closed its end.
  gate.on('error', () => undefined);
  return {
    pid,
    begin: () => gate.end('\n'),
    signal: (signal, to) => {
      if (to === 'session') signalSession(pid, signal);
      else child.kill(signal);
    },
    ended: endOf(child, pid),
  };
}

/** How long to wait until the rest of a killed session is gone: the kernel ends it at once. */
const REST_MS_MAX = 1_000;
const REST_POLL_MS = 10;

/** How a command that was started ends. Never rejected: a signal that may not be sent to it has not ended it. */
export async function endOf(child: ChildProcess, pid: number): Promise<CommandEnd> {
  // Such as EPERM, from a command that has become another user's. `once` would reject.
  child.on('error', () => undefined);
  const [exitCode, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
    child.once('exit', (...end) => resolve(end)),
  );
  for (let waitedMs = 0; waitedMs < REST_MS_MAX; waitedMs += REST_POLL_MS) {
    if (!signalSession(pid, 'SIGKILL')) break;
    await delay(REST_POLL_MS);
  }
  return { exitCode, signal };
}

/** Signals that somebody sends to the guard itself: they are meant for its command. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Guards a command for the parent process, which gives its orders over a channel, until the command
 * has ended or the parent is gone without one.
 */
export async function runGuard(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  closeInheritedDescriptors();
  const clock = createBootClock();
  const deathSignal = await findDeathSignal(environment['PATH'] ?? '');
  const guard = new Guard({
    nowMs: () => clock.nowMs(),
    launch: (command, added) => launchCommand(command, { ...environment, ...added }, deathSignal),
    report: (report) => {
      tell(report);
      if (isLast(report)) over.abort();
    },
  });
  const over = new AbortController();
  const stopTicking = clock.onTick(() => guard.tick());
  process.on('message', (order: GuardOrder) => guard.take(order));
  for (const signal of SIGNALS) {
    process.on(signal, () => guard.take({ type: 'signal', signal }));
  }
  process.once('disconnect', () => {
    if (!guard.orphaned()) over.abort();
  });
  tell({ type: 'ready' });
  if (!process.connected) over.abort();
  if (!over.signal.aborted) await once(over.signal, 'abort');
  stopTicking();
}

function tell(report: GuardReport): void {
  // A process that has ended needs no message.
  if (process.connected) process.send?.(report, undefined, undefined, () => undefined);
}

function isLast({ type }: GuardReport): boolean {
  return type === 'ended' || type === 'not_started';
}
