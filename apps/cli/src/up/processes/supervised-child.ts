import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import {
  deathOf,
  deathText,
  keepRunning,
  RestartSchedule,
  type Death,
  type RunningHooks,
  type Start,
  type Supervision,
} from '@leasehold/service-kit/supervision';
import { refusal } from '../../failures/failure.ts';
import { printable } from '../../output/printable.ts';
import { openBoundedLog, type BoundedLog } from '../bounded-log.ts';
import { alarmOf, lineReader, type Alarm } from '../log-lines.ts';

/** How long a process may take until it says that it is ready. */
const READY_TIMEOUT_MS = 60_000;
/** How long to wait for the last output of a dead process. */
const LAST_WORDS_MS_MAX = 500;
/** How many of its last alarms are reported when a process dies. */
const ALARMS_KEPT = 5;

/** One of the processes that `leasehold up` runs. */
export interface ChildSpec {
  readonly name: string;
  /** Arguments for the same Node: the program, and its own arguments. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly logPath: string;
  /** How long it may take to end gently before it is killed. */
  readonly stopTimeoutMs: number;
  /** Resolves when what it needs to start is there, or the signal aborts; called before a restart. */
  readonly needs?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

export interface ChildHooks extends RunningHooks {
  /** A warning or an error in its log. */
  alarm(name: string, alarm: Alarm): void;
}

/** What a process reports to its parent once it is ready. */
export interface ReadyMessage {
  readonly pid: number;
  readonly [field: string]: unknown;
}

export interface SupervisedChild {
  /** What it reported at its latest start. */
  readonly ready: ReadyMessage;
  /** Asks it to end, waits, and kills it when it takes too long. Safe to call twice. */
  stop(): Promise<void>;
}

/**
 * Starts a process and keeps it running, see {@link keepRunning}. Its output goes to a bounded log;
 * warnings are passed on.
 *
 * The process gets a session of its own, so that a Ctrl-C in the terminal reaches only us, who end
 * everything in order. It ends by itself when we are gone: its IPC channel is then disconnected.
 *
 * @throws {CliFailure} `up.start_failed` when its first start fails, or `stop` aborts it.
 */
export async function superviseChild(
  spec: ChildSpec,
  hooks: ChildHooks,
  supervision: Supervision,
): Promise<SupervisedChild> {
  const supervisor = new Supervisor(spec, hooks, supervision);
  await supervisor.start();
  return supervisor;
}

class Supervisor implements SupervisedChild {
  ready: ReadyMessage = { pid: 0 };
  readonly #spec: ChildSpec;
  readonly #hooks: ChildHooks;
  readonly #supervision: Supervision;
  readonly #log: BoundedLog;
  readonly #stopping = new AbortController();
  #child: ChildProcess | undefined;
  #kept: Promise<void> = Promise.resolve();

  constructor(spec: ChildSpec, hooks: ChildHooks, supervision: Supervision) {
    this.#spec = spec;
    this.#hooks = hooks;
    this.#supervision = supervision;
    this.#log = openBoundedLog(spec.logPath);
  }

  async start(): Promise<void> {
    const first = await this.#startFirst();
    if (first.outcome === 'died') {
      this.#log.close();
      throw startFailed(this.#spec.name, first.death);
    }
    this.#kept = keepRunning(first.running, {
      name: this.#spec.name,
      start: async () => {
        const { signal } = this.#stopping;
        await this.#spec.needs?.(signal);
        if (signal.aborted) return { outcome: 'died', death: deathOf('was told to stop', []) };
        return this.#startOnce();
      },
      supervision: this.#supervision,
      hooks: this.#hooks,
      stopping: this.#stopping.signal,
    });
  }

  /** Waits for space on a full disk too; any other error ends it, since somebody is there to read it. */
  async #startFirst(): Promise<Start> {
    const { random, stop, time } = this.#supervision;
    const schedule = new RestartSchedule(random);
    for (;;) {
      const start = await this.#startOnce();
      if (start.outcome === 'running' || start.death.cause !== 'disk_full') return start;
      const { delayMs } = schedule.afterFullDisk();
      this.#hooks.restarting(this.#spec.name, start.death, delayMs);
      await time.pause(delayMs, stop);
      if (stop.aborted) return start;
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#child !== undefined) await endChild(this.#child, this.#spec.stopTimeoutMs);
    await this.#kept;
    this.#log.close();
  }

  async #startOnce(): Promise<Start> {
    const alarms: Alarm[] = [];
    let isReady = false;
    const child = this.#launch((alarm) => {
      alarms.push(alarm);
      if (alarms.length > ALARMS_KEPT) alarms.shift();
      // Before it is ready its alarms are reported with the failure to start, once.
      if (isReady) this.#hooks.alarm(this.#spec.name, alarm);
    });
    this.#child = child;
    const endedWith = async (how: string): Promise<Death> => {
      await outputRead(child);
      const lines = alarms.map(({ message }) => message);
      return deathOf(how, lines);
    };
    const start = await untilReady(child, this.#supervision.stop);
    if (start.outcome === 'failed') {
      return { outcome: 'died', death: await endedWith(start.how) };
    }
    this.ready = start.ready;
    isReady = true;
    const running = {
      ended: exitOf(child).then(endedWith),
      stop: () => endChild(child, this.#spec.stopTimeoutMs),
    };
    return { outcome: 'running', running };
  }

  #launch(onAlarm: (alarm: Alarm) => void): ChildProcess {
    const child = spawn(process.execPath, this.#spec.args, {
      env: this.#spec.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const source of ['stdout', 'stderr'] as const) {
      const read = lineReader((line) => {
        const alarm = alarmOf(line, source);
        if (alarm !== undefined) onAlarm(alarm);
      });
      child[source]?.on('data', (chunk: Buffer) => {
        this.#log.write(chunk);
        read(chunk);
      });
    }
    return child;
  }
}

/** Waits for the first message of kind `ready`. If anything else happens first, the process is killed. */
async function untilReady(
  child: ChildProcess,
  stop: AbortSignal,
): Promise<
  | { readonly outcome: 'ready'; readonly ready: ReadyMessage }
  | { readonly outcome: 'failed'; readonly how: string }
> {
  const settled = new AbortController();
  const { signal } = settled;
  const failed = (how: string) => ({ outcome: 'failed', how }) as const;
  const ready = async () => {
    for (;;) {
      const [message] = (await once(child, 'message', { signal })) as [unknown];
      if (isReadyMessage(message)) {
        return { outcome: 'ready', ready: { ...message, pid: child.pid ?? 0 } } as const;
      }
    }
  };
  const ways = [
    ready(),
    exitOf(child).then((how) => failed(`${how} before it was ready`)),
    delay(READY_TIMEOUT_MS, undefined, { signal }).then(() =>
      failed(`was not ready after ${String(READY_TIMEOUT_MS / 1_000)} s`),
    ),
    once(stop, 'abort', { signal }).then(() => failed('was told to stop')),
  ];
  for (const way of ways) way.catch(() => undefined);
  try {
    const first = await Promise.race(ways);
    if (first.outcome === 'failed') child.kill('SIGKILL');
    return first;
  } finally {
    settled.abort();
  }
}

function isReadyMessage(message: unknown): message is { type: 'ready' } {
  return (
    typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready'
  );
}

function startFailed(name: string, death: Death): Error {
  const said = death.lastLines.map((line) => `\n  ${printable(line)}`).join('');
  const why = deathText({ ...death, lastLines: [] });
  return refusal('up.start_failed', `The ${name} could not be started: it ${why}.${said}`);
}

/** Resolves when the process is gone, with how it ended. */
async function exitOf(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null) {
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
      child.once('error', () => resolve());
    });
  }
  return child.signalCode === null
    ? `ended with code ${String(child.exitCode)}`
    : `was ended by ${child.signalCode}`;
}

/** Its last output may come after its end; a process that it left behind may keep its output open. */
async function outputRead(child: ChildProcess): Promise<void> {
  const closed = [child.stdout, child.stderr].map(async (stream) => {
    if (stream !== null && !stream.closed) await once(stream, 'close');
  });
  const late = delay(LAST_WORDS_MS_MAX, undefined, { ref: false });
  await Promise.race([Promise.allSettled(closed), late]);
}

async function endChild(child: ChildProcess, timeoutMs: number): Promise<void> {
  const dead = exitOf(child);
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
