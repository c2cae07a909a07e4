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
