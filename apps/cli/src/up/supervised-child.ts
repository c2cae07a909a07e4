import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { refusal } from '../failure.ts';
import { openBoundedLog, type BoundedLog } from './bounded-log.ts';
import { alarmOf, lineReader, type Alarm } from './log-lines.ts';

/** How long a process may take until it says that it is ready. */
const READY_TIMEOUT_MS = 60_000;
/** The first delay before a process that died is started again; doubled each time. */
const RESTART_DELAY_MS_MIN = 500;
const RESTART_DELAY_MS_MAX = 8_000;
/** A process that ran for this long starts again at the smallest delay. */
const STEADY_MS = 60_000;
/** Deaths in a row after which no further start is worth a try: about 30 s of trying. */
const DEATHS_IN_A_ROW_MAX = 7;
/** How many of its last alarms are told when a process cannot start. */
const ALARMS_KEPT = 5;

/** One of the processes that `leasehold up` runs. */
export interface ChildSpec {
  readonly name: string;
  /** Arguments of this same Node: the program and its own. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly logPath: string;
  /** How long it may take to end gently before it is killed. */
  readonly stopTimeoutMs: number;
}

export interface ChildHooks {
  /** A warning or an error in its log. */
  alarm(name: string, alarm: Alarm): void;
  /** It died and is started again. */
  restarting(name: string, how: string, inMs: number): void;
  /** It runs again. */
  restarted(name: string, ready: ReadyMessage): void;
  /** It died too often; it is not started any more. */
  gaveUp(name: string, how: string): void;
}

/** What a process tells its parent once it serves. */
export interface ReadyMessage {
  readonly pid: number;
  readonly [field: string]: unknown;
}

export interface SupervisedChild {
  /** What it said at its latest start. */
  readonly ready: ReadyMessage;
  /** Asks it to end, waits, and kills it when it takes too long. Safe to call twice. */
  stop(): Promise<void>;
}

/**
 * Starts a process and keeps it running: when it dies it is started again after a delay that
 * doubles. Its output goes to a bounded log; warnings are passed on.
 *
 * The process gets a session of its own, so that a Ctrl-C in the terminal reaches only us, who end
 * everything in order. It ends by itself when we are gone: its IPC channel is then disconnected.
 *
 * @throws {CliFailure} `up.start_failed` when its first start fails, or `stop` aborts it.
 */
export async function superviseChild(
  spec: ChildSpec,
  hooks: ChildHooks,
  stop: AbortSignal,
): Promise<SupervisedChild> {
  const supervisor = new Supervisor(spec, hooks, stop);
  await supervisor.start();
  return supervisor;
}

class Supervisor implements SupervisedChild {
  ready: ReadyMessage = { pid: 0 };
  readonly #spec: ChildSpec;
  readonly #hooks: ChildHooks;
  readonly #log: BoundedLog;
  readonly #stop: AbortSignal;
  readonly #stopping = new AbortController();
  readonly #alarms: Alarm[] = [];
  #child: ChildProcess | undefined;
  #isReady = false;
  #deathsInARow = 0;
  #kept: Promise<void> = Promise.resolve();

  constructor(spec: ChildSpec, hooks: ChildHooks, stop: AbortSignal) {
    this.#spec = spec;
    this.#hooks = hooks;
    this.#stop = stop;
    this.#log = openBoundedLog(spec.logPath);
  }

  async start(): Promise<void> {
    try {
      const child = await this.#startOnce();
      this.#kept = this.#keepRunning(child);
    } catch (error) {
      this.#log.close();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#child !== undefined) await endChild(this.#child, this.#spec.stopTimeoutMs);
    await this.#kept;
    this.#log.close();
  }

  async #startOnce(): Promise<ChildProcess> {
    this.#isReady = false;
    const child = this.#launch();
    this.#child = child;
    this.ready = await readyMessageOf(child, this.#spec.name, {
      alarms: this.#alarms,
      stop: this.#stop,
    });
    this.#isReady = true;
    return child;
  }

  #launch(): ChildProcess {
    const child = spawn(process.execPath, this.#spec.args, {
      env: this.#spec.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const source of ['stdout', 'stderr'] as const) {
      const read = lineReader((line) => {
        this.#onLine(line, source);
      });
      child[source]?.on('data', (chunk: Buffer) => {
        this.#log.write(chunk);
        read(chunk);
      });
    }
    return child;
  }

  #onLine(line: string, source: 'stdout' | 'stderr'): void {
    const alarm = alarmOf(line, source);
    if (alarm === undefined) return;
    this.#alarms.push(alarm);
    if (this.#alarms.length > ALARMS_KEPT) this.#alarms.shift();
    // Before it is ready its alarms are told with the failure to start, once.
    if (this.#isReady) this.#hooks.alarm(this.#spec.name, alarm);
  }

  async #keepRunning(first: ChildProcess): Promise<void> {
    let child = first;
    while (this.#deathsInARow < DEATHS_IN_A_ROW_MAX) {
      const startedAtMs = performance.now();
      const how = await deathOf(child);
      if (this.#isStopping()) return;
      if (performance.now() - startedAtMs > STEADY_MS) this.#deathsInARow = 0;
      this.#deathsInARow += 1;
      child = await this.#startAgain(child, how);
    }
    this.#hooks.gaveUp(this.#spec.name, await deathOf(child));
  }

  /** @returns the new process, or the dead one when it could not be started: its death is counted. */
  async #startAgain(dead: ChildProcess, how: string): Promise<ChildProcess> {
    const delayMs = Math.min(
      RESTART_DELAY_MS_MIN * 2 ** (this.#deathsInARow - 1),
      RESTART_DELAY_MS_MAX,
    );
    this.#hooks.restarting(this.#spec.name, how, delayMs);
    const { signal } = this.#stopping;
    await delay(delayMs, undefined, { signal }).catch(() => undefined);
    if (this.#isStopping()) return dead;
    try {
      const child = await this.#startOnce();
      this.#hooks.restarted(this.#spec.name, this.ready);
      return child;
    } catch {
      return dead;
    }
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }
}

/** Waits for the first message of kind `ready`. Whatever else happens first kills the process. */
async function readyMessageOf(
  child: ChildProcess,
  name: string,
  { alarms, stop }: { alarms: readonly Alarm[]; stop: AbortSignal },
): Promise<ReadyMessage> {
  const settled = new AbortController();
  const { signal } = settled;
  try {
    const ready = (async (): Promise<ReadyMessage> => {
      for (;;) {
        const [message] = (await once(child, 'message', { signal })) as [unknown];
        if (isReadyMessage(message)) return { ...message, pid: child.pid ?? 0 };
      }
    })();
    const died = deathOf(child).then((how) => {
      throw startFailed(name, how, alarms);
    });
    const late = delay(READY_TIMEOUT_MS, undefined, { signal }).then(() => {
      throw startFailed(name, `was not ready after ${String(READY_TIMEOUT_MS / 1_000)} s`, alarms);
    });
    const stopped = once(stop, 'abort', { signal }).then(() => {
      throw startFailed(name, 'was told to stop', []);
    });
    const ways = [ready, died, late, stopped];
    for (const way of ways) way.catch(() => undefined);
    return await Promise.race(ways);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    settled.abort();
  }
}

function isReadyMessage(message: unknown): message is { type: 'ready' } {
  return (
    typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready'
  );
}

function startFailed(name: string, how: string, alarms: readonly Alarm[]): Error {
  const said = alarms.map((alarm) => `\n  ${alarm.message}`).join('');
  return refusal('up.start_failed', `The ${name} could not be started: it ${how}.${said}`);
}

/** Resolves when the process is gone, with how it went. */
async function deathOf(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null) {
    await new Promise<void>((resolve) => {
      child.once('exit', () => {
        resolve();
      });
      child.once('error', () => {
        resolve();
      });
    });
  }
  return child.signalCode === null
    ? `ended with code ${String(child.exitCode)}`
    : `was ended by ${child.signalCode}`;
}

async function endChild(child: ChildProcess, timeoutMs: number): Promise<void> {
  const dead = deathOf(child);
  child.kill('SIGTERM');
  const isDead = await Promise.race([
    dead.then(() => true),
    delay(timeoutMs, false, { ref: false }),
  ]);
  if (!isDead) {
    child.kill('SIGKILL');
    await dead;
  }
}
