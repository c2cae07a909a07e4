/** How a process that dies is started again. */
import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from './logger.ts';

/** How a process ends. */
interface ShutdownOptions {
  /** After this the process ends, whether everything was released or not. */
  readonly timeLimitMs: number;
  /** Logs the beginning, each step that failed, and an end that was not in time. */
  readonly log?: Pick<Logger, 'info' | 'error'> | undefined;
}

/** What is to be released when the process ends, and the end itself. */
interface Shutdown {
  /** Whether the end has begun: new work is refused from then on. */
  readonly begun: boolean;
  /** Aborted when the end begins. */
  readonly signal: AbortSignal;
  /** Releases `step` at the end; what was added last is released first. */
  add(step: string, release: () => void | Promise<void>): void;
  /**
   * Releases everything, once; a second call gives the same promise. A step that fails does not
   * stop the others. @param timeLimitMs in place of the usual one.
   * @returns whether all of it was done in time.
   */
  run(reason: string, timeLimitMs?: number): Promise<boolean>;
  /**
   * Ends the process at SIGINT or SIGTERM, and when the process that started it with a channel is
   * gone. A second signal ends it at once, unless it is the same Ctrl-C again: npm passes on what
   * the terminal has already sent.
   */
  listen(): void;
}

/** How long a program that could not start releases what it has: its supervisor waits for its end. */
export const FAILED_START_MS_MAX = 700;

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
const KILLED_BY_SECOND_SIGNAL = 130;
const SAME_SIGNAL_MS = 1_000;

/** One for each process; nothing happens until something is added and {@link Shutdown.run} is called. */
export function createShutdown(options: ShutdownOptions): Shutdown {
  const steps: { name: string; release: () => void | Promise<void> }[] = [];
  const abort = new AbortController();
  let running: Promise<boolean> | undefined;
  let begunAt = 0;

  const release = async (): Promise<boolean> => {
    let allReleased = true;
    for (let step = steps.pop(); step; step = steps.pop()) {
      try {
        await step.release();
      } catch (error) {
        allReleased = false;
        options.log?.error({ step: step.name, err: error }, 'shutdown failed');
      }
    }
    return allReleased;
  };

  const inTime = async (work: Promise<boolean>, timeLimitMs: number): Promise<boolean> => {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => {
        options.log?.error({ timeLimitMs }, 'shutdown is not done in time');
        resolve(false);
      }, timeLimitMs);
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  };

  const run = (reason: string, timeLimitMs = options.timeLimitMs): Promise<boolean> => {
    if (running) return running;
    options.log?.info({ reason }, 'stopping');
    abort.abort(new Error(`shutdown: ${reason}`));
    begunAt = performance.now();
    running = inTime(release(), timeLimitMs);
    return running;
  };

  const end = (reason: string): void => {
    if (running) {
      if (performance.now() - begunAt >= SAME_SIGNAL_MS) process.exit(KILLED_BY_SECOND_SIGNAL);
      return;
    }
    void run(reason).then((allReleased) => process.exit(allReleased ? 0 : 1));
  };

  return {
    get begun() {
      return running !== undefined;
    },
    signal: abort.signal,
    add(name, release) {
      steps.push({ name, release });
    },
    run,
    listen() {
      for (const signal of SIGNALS) {
        process.on(signal, () => end(signal));
      }
      if (process.channel) {
        process.on('disconnect', () => {
          if (!running) end('the parent is gone');
        });
      }
    },
  };
}

/**
 * Why an address cannot be listened on, and which variable to set; undefined for an error that is
 * not about the address. @param portVariable names the port's environment variable.
 */
export function listenProblem(
  error: unknown,
  { host, port }: { readonly host: string; readonly port: number },
  portVariable: string,
): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  const where = `${host}:${String(port)}`;
  if (code === 'EADDRINUSE') return `${where} is in use: set ${portVariable} to another port.`;
  return code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
    ? `${where} cannot be listened on: check LEASEHOLD_HOST and ${portVariable}.`
    : undefined;
}

/** Time as this machine counts it; passed in, so that tests control it. */
interface SupervisorTime {
  /** Of a monotonic clock. */
  nowMs(): number;
  /** Fulfilled after `ms`, or when the signal aborts. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
}

/** What supervisors take from the machine, and the signal that ends them all. */
export interface Supervision {
  readonly time: SupervisorTime;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
  /** Aborted when everything is to end. */
  readonly stop: AbortSignal;
}

/** The supervision of this process. */
export function systemSupervision(stop: AbortSignal): Supervision {
  return {
    stop,
    random: Math.random,
    time: {
      nowMs: () => performance.now(),
      async pause(ms, signal) {
        await delay(ms, undefined, { signal }).catch(() => undefined);
      },
    },
  };
}

/** A process that runs. */
export interface Running {
  /** Fulfilled when it has ended, whatever ended it. */
  readonly ended: Promise<Death>;
  /** Ends it. Safe to repeat. */
  stop(): Promise<void>;
}

/** The outcome of a start. */
export type Start =
  | { readonly outcome: 'running'; readonly running: Running }
  | { readonly outcome: 'died'; readonly death: Death };

/** What is reported about a process that is kept running. */
export interface RunningHooks {
  /** It died, or could not be started, and is started again. */
  restarting(name: string, death: Death, inMs: number): void;
  /** It runs again. */
  restarted(name: string): void;
  /** It died too often; it is not started any more. */
  gaveUp(name: string, death: Death, often: { deathCount: number; windowMs: number }): void;
}

interface KeptProcess {
  readonly name: string;
  /** Starts it again. A start that failed counts as a death. */
  readonly start: () => Promise<Start>;
  readonly supervision: Supervision;
  readonly hooks: RunningHooks;
  /** Aborted when it is to end and not to be started again. */
  readonly stopping: AbortSignal;
}

/**
 * Starts a process again whenever it ends, until `stopping` aborts or its schedule gives up. A process
 * whose start was under way when `stopping` aborted is ended too.
 */
export async function keepRunning(first: Running, kept: KeptProcess): Promise<void> {
  const { name, supervision, hooks } = kept;
  // While everything is being ended nothing is started again.
  const isStopping = (): boolean => kept.stopping.aborted || supervision.stop.aborted;
  const schedule = new RestartSchedule(supervision.random);
  let death = await first.ended;
  while (!isStopping()) {
    const decision = schedule.next(death, supervision.time.nowMs());
    if (decision.outcome === 'give_up') {
      hooks.gaveUp(name, death, decision);
      return;
    }
    hooks.restarting(name, death, decision.delayMs);
    await supervision.time.pause(decision.delayMs, kept.stopping);
    if (isStopping()) return;
    death = await runOnce(kept);
  }
}

/** @returns how it ended. */
async function runOnce({ name, start, hooks, stopping }: KeptProcess): Promise<Death> {
  const started = await start();
  if (started.outcome === 'died') return started.death;
  if (stopping.aborted) await started.running.stop();
  else hooks.restarted(name);
  return started.running.ended;
}

/** The first delay before a process that died is started again; doubled with each further death. */
const RESTART_DELAY_MS_MIN = 500;
const RESTART_DELAY_MS_MAX = 8_000;
/** While its disk is full: each try costs a start, and space may be there any second. */
const FULL_DISK_DELAY_MS = 4_000;
/** Longer than the tries below take together, also where each start takes its whole minute. */
const DEATHS_WINDOW_MS = 600_000;
/** Deaths within the window after which no further start is worth a try: about 30 s of trying. */
const DEATHS_IN_WINDOW_MAX = 7;

/** What is done about a death. */
type RestartDecision =
  | { readonly outcome: 'restart'; readonly delayMs: number }
  | { readonly outcome: 'give_up'; readonly deathCount: number; readonly windowMs: number };

/**
 * Decides when a process that died is started again, and when it is given up. Only deaths of the last ten
 * minutes count. A full disk does not count: only waiting for space helps, however long that takes,
 * and giving up would end what still runs beside it.
 */
export class RestartSchedule {
  readonly #random: () => number;
  #diedAtMs: number[] = [];

  /** @param random a number in `[0, 1)`, for the jitter. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** @param nowMs of a monotonic clock. */
  next({ cause }: Death, nowMs: number): RestartDecision {
    if (cause === 'disk_full') return this.afterFullDisk();
    this.#diedAtMs = [...this.#diedAtMs.filter((atMs) => nowMs - atMs < DEATHS_WINDOW_MS), nowMs];
    const deathCount = this.#diedAtMs.length;
    if (deathCount > DEATHS_IN_WINDOW_MAX) {
      return { outcome: 'give_up', deathCount, windowMs: DEATHS_WINDOW_MS };
    }
    return { outcome: 'restart', delayMs: this.#delayMs(deathCount) };
  }

  afterFullDisk(): Extract<RestartDecision, { outcome: 'restart' }> {
    return { outcome: 'restart', delayMs: this.#jittered(FULL_DISK_DELAY_MS) };
  }

  #delayMs(deathCount: number): number {
    return this.#jittered(
      Math.min(RESTART_DELAY_MS_MIN * 2 ** (deathCount - 1), RESTART_DELAY_MS_MAX),
    );
  }

  #jittered(fullMs: number): number {
    return fullMs * (1 - this.#random() / 2);
  }
}

/** Why a process died, as far as the last lines of its log show. */
type DeathCause = 'disk_full' | 'port_in_use' | 'not_permitted' | 'out_of_memory' | 'unknown';

/** The end of a process that should have gone on, or a start that failed. */
export interface Death {
  /** What follows its name: `ended with code 1`, `could not be started`. */
  readonly how: string;
  readonly cause: DeathCause;
  /** The last alarms of its log, the oldest first. */
  readonly lastLines: readonly string[];
}

/** The first that matches counts: a full disk is also behind some refused permissions. */
const SIGNS: readonly { readonly cause: DeathCause; readonly pattern: RegExp }[] = [
  {
    cause: 'disk_full',
    pattern: /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded|\bdisk\b.* full/iu,
  },
  {
    cause: 'port_in_use',
    pattern: /EADDRINUSE|Address already in use|\bport \d.* in use|:\d+ is in use/iu,
  },
  {
    cause: 'not_permitted',
    pattern: /EACCES|EPERM|EROFS|Permission denied|Operation not permitted|Read-only file system/iu,
  },
  { cause: 'out_of_memory', pattern: /ENOMEM|heap out of memory|Cannot allocate memory/iu },
];

const TEXT_OF: Record<DeathCause, string | undefined> = {
  disk_full: 'its disk is full',
  port_in_use: 'its port is in use by another program',
  not_permitted: 'it may not read or write what it needs',
  out_of_memory: 'it ran out of memory',
  unknown: undefined,
};

/** @param lastLines the last alarms of its log, since this start of it. */
export function deathOf(how: string, lastLines: readonly string[]): Death {
  // The last line with a known cause counts: an older one may be about something that passed.
  for (const line of lastLines.toReversed()) {
    const sign = SIGNS.find(({ pattern }) => pattern.test(line));
    if (sign !== undefined) return { how, cause: sign.cause, lastLines };
  }
  return { how, cause: 'unknown', lastLines };
}

/** A start that failed with an error; the reason is in its message, or in that of a cause. */
export function failedStart(error: unknown): Death {
  const lines: string[] = [];
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    lines.unshift(cause.message);
  }
  const { cause } = deathOf('', lines);
  return { how: 'could not be started', cause, lastLines: lines.slice(-1) };
}

/** How it ended and why, in one line: the cause, or else the last line of its log. */
export function deathText({ how, cause, lastLines }: Death): string {
  const why = TEXT_OF[cause] ?? lastLines.at(-1);
  return why === undefined ? how : `${how}: ${why}`;
}

const FAILED = 1;

/**
 * Ends this process when its program has: with the code that it gives, or, when it throws, with the
 * problem on the standard error and the code 1. Nothing that is still open keeps the process: what
 * could not start may have left connections, servers and children, and a supervisor waits for its end.
 *
 * A program that gives no code ends the process itself.
 */
export async function endProcessAfter(program: Promise<number | undefined>): Promise<void> {
  let exitCode: number | undefined;
  try {
    exitCode = await program;
  } catch (error) {
    process.stderr.write(`${problemText(error)}\n`);
    exitCode = FAILED;
  }
  if (exitCode !== undefined) process.exit(exitCode);
}

/** Who started it by hand or from a unit gets plain words for what has a code, and the stack of anything else. */
function problemText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.name === 'LeaseError' ? error.message : (error.stack ?? error.message);
}

const FOLDER = '/proc/self/fd';
/** Close-on-exec, in octal, as `fdinfo` has the flags of an open file. */
const CLOSE_ON_EXEC = 0o2_000_000;

/**
 * Closes what the process that started this one had left open, except for the standard streams. Node
 * passes such descriptors on to every command that it starts, each with all that its file allows.
 * What Node has opened itself is marked to be closed by then, and stays. Does nothing without `/proc`.
 *
 * To be called first of all, in a process that starts programs of others.
 */
export function closeInheritedDescriptors(): void {
  for (const descriptor of openDescriptors()) {
    if (descriptor > 2 && isPassedOn(descriptor)) closeSync(descriptor);
  }
}

function openDescriptors(): number[] {
  try {
    return readdirSync(FOLDER).map(Number);
  } catch {
    return [];
  }
}

function isPassedOn(descriptor: number): boolean {
  try {
    const facts = readFileSync(`/proc/self/fdinfo/${String(descriptor)}`, 'utf8');
    const flags = /^flags:\s+([0-7]+)$/mu.exec(facts)?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // That by which the folder was read is closed already.
    return false;
  }
}
