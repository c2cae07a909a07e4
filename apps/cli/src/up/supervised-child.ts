import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, ftruncateSync, openSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { printableText } from '@leasehold/keys-core';
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
import { refusal } from '../failures.ts';
import { printable } from '../output/text.ts';

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
interface ReadyMessage {
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
      throw startFailure(this.#spec.name, first.death);
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

function startFailure(name: string, death: Death): Error {
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

/** The levels that somebody should see; Leasehold's own logs name them. */
const ALARM_LEVELS: Readonly<Record<string, Alarm['level']>> = {
  warn: 'warn',
  error: 'error',
  fatal: 'error',
};

/** A line longer than this is cut: nobody reads it in a terminal, and memory is bounded. */
const LINE_CHARS_MAX = 16_384;

/** A line of a child's log that somebody should see. */
interface Alarm {
  readonly level: 'warn' | 'error';
  readonly message: string;
}

/**
 * Cuts a stream into lines.
 * @returns a function that takes the next chunk.
 */
export function lineReader(onLine: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder();
  let rest = '';
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX);
    for (const line of lines) if (line !== '') onLine(line.slice(0, LINE_CHARS_MAX));
  };
}

/**
 * What a line of a log says, if it is a warning or worse. A line that is not JSON, such as the
 * trace of a crash, is an alarm when it came from the standard error.
 */
export function alarmOf(line: string, source: 'stdout' | 'stderr'): Alarm | undefined {
  const entry = parseLine(line);
  if (entry === undefined) {
    return source === 'stderr' ? { level: 'error', message: printableText(line) } : undefined;
  }
  const level = ALARM_LEVELS[String(entry['level'])];
  if (level === undefined) return undefined;
  const message = typeof entry['msg'] === 'string' ? entry['msg'] : 'see the log';
  const cause = errorText(entry['err']);
  return {
    level,
    // It goes to a terminal, and may quote what a caller sent.
    message: printableText(cause === undefined ? message : `${message}: ${cause}`),
  };
}

function parseLine(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function errorText(err: unknown): string | undefined {
  if (typeof err !== 'object' || err === null || !('message' in err)) return undefined;
  // Some messages have several lines.
  return typeof err.message === 'string' ? err.message.trim().replaceAll(/\s+/gu, ' ') : undefined;
}

/** The size at which a log is set aside, and a new one begun: two of them are kept per process. */
const LOG_BYTES_MAX = 8 * 1_024 * 1_024;

/** An append-only log file of a bounded size. */
type BoundedLog = ReturnType<typeof openBoundedLog>;

/**
 * Opens `path` for appending. When it grows beyond its bound it becomes `<path>.1`, replacing the
 * one before. A log that cannot be written, on a full disk for example, loses lines and stops
 * nothing: the process that it belongs to is more important.
 */
export function openBoundedLog(path: string, bytesMax: number = LOG_BYTES_MAX) {
  let file = openSync(path, 'a', 0o600);
  let bytes = fstatSync(file).size;

  function rotate(): void {
    try {
      renameSync(path, `${path}.1`);
    } catch (error) {
      // Somebody has removed it. One that cannot be set aside is emptied instead: its bound holds.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') ftruncateSync(file);
    }
    const next = openSync(path, 'a', 0o600);
    closeSync(file);
    file = next;
    bytes = 0;
  }

  return {
    write(chunk: Buffer) {
      try {
        if (bytes + chunk.byteLength > bytesMax && bytes > 0) rotate();
        writeFileSync(file, chunk);
        bytes += chunk.byteLength;
      } catch {
        // Lost lines are the lesser harm; see above.
      }
    },
    close() {
      closeSync(file);
    },
  };
}
