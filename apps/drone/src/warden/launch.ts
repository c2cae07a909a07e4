import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { childNamespaceOf, groupCensus, namespaceCensus, type Census } from './census.ts';
import type { LaunchMeans } from './isolation.ts';
import { OutputLog } from './output-log.ts';
import type { StartRequest } from './protocol.ts';

/** However far ahead soft is: a chain takes a few milliseconds on an idle machine. */
const LAUNCH_MS_MAX = 60_000;

/** What the launches of one warden have in common. */
export interface LaunchContext {
  readonly means: LaunchMeans;
  readonly logFolder: string;
  readonly nowMs: () => number;
}

/**
 * One backend's processes, seen from their parent. Signals go to the group of a child that has not
 * been reaped, never to a number from a file: the kernel cannot have given it to a stranger.
 */
export class BackendProcess {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #means: LaunchMeans;
  readonly #stopSignal: NodeJS.Signals;
  #census: Census;
  #isReaped = false;
  #exitCode: number | null = null;

  private constructor(child: ChildProcess, pid: number, means: LaunchMeans, stopSignal: string) {
    this.#child = child;
    this.pid = pid;
    this.#means = means;
    this.#stopSignal = stopSignal as NodeJS.Signals;
    this.#census = groupCensus(pid);
    child.once('exit', () => {
      this.#isReaped = true;
    });
  }

  /**
   * Starts the chain up to the point where only `go` is missing. The program has not run when this
   * returns; it never does unless {@link release} is called.
   * @throws {Error} when the chain does not come up before the soft deadline of the request.
   */
  static async prepare(
    request: StartRequest,
    { means, logFolder, nowMs }: LaunchContext,
  ): Promise<BackendProcess> {
    const [file = means.shell, ...args] = [
      ...means.chain,
      ...[
        means.shell,
        '-c',
        means.initScript,
        'leasehold-init',
        request.stopSignal.slice('SIG'.length),
      ],
      ...[...means.session, request.command, ...request.args],
    ];
    const child = spawn(file, args, {
      cwd: request.cwd,
      env: { ...request.env },
      // A session of its own: what ends the warden's terminal or group does not reach it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    collectOutput(child, path.join(logFolder, request.backendId));
    const pid = await spawnedPid(child);
    const backend = new BackendProcess(child, pid, means, request.stopSignal);
    try {
      await backend.#ready(Math.min(request.softAtMs - nowMs(), LAUNCH_MS_MAX));
    } catch (cause) {
      backend.kill();
      throw cause;
    }
    return backend;
  }

  /** Lets the program run. */
  release(): void {
    (this.#child.stdio[4] as Writable).end('go\n');
  }

  /** Asks the program to stop. */
  signalStop(): void {
    this.#signal(this.#means.groupStopSignal ?? this.#stopSignal);
  }

  /** Ends every process of the backend without asking. May be called again. */
  kill(): void {
    (this.#child.stdio[4] as Writable | null)?.destroy();
    this.#signal('SIGKILL');
  }

  /** Whether every process of the backend has been seen to be gone. */
  isGone(): boolean {
    return this.#isReaped && this.#census.isEmpty();
  }

  /** As a shell reports it; null while it is not known, and when init was killed. */
  get exitCode(): number | null {
    return this.#exitCode;
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#isReaped) return;
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if (!isNoSuchProcess(error)) throw error;
    }
  }

  async #ready(timeoutMs: number): Promise<void> {
    const reports = this.#child.stdio[3] as Readable;
    (this.#child.stdio[4] as Writable).on('error', () => {
      // Init ended before it was let go; its exit says so.
    });
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => {
        reject(new Error('the launch chain did not become ready'));
      }, timeoutMs);
      let report = '';
      reports.setEncoding('utf8');
      reports.on('data', (text: string) => {
        report += text;
        if (report.startsWith('ready\n')) resolve();
        const exit = /exit (\d+)\n/u.exec(report);
        if (exit !== null) this.#exitCode = Number(exit[1]);
      });
      reports.once('end', () => {
        reject(new Error('the launch chain ended before it was ready'));
      });
    }).finally(() => {
      clearTimeout(timer);
    });
    if (this.#means.isolation !== 'pid-namespace') return;
    const namespace = childNamespaceOf(this.pid);
    if (namespace === undefined || namespace === childNamespaceOf(process.pid)) {
      throw new Error('the namespace of the backend cannot be told');
    }
    this.#census = namespaceCensus(namespace);
  }
}

function spawnedPid(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('spawn', () => {
      if (child.pid === undefined) reject(new Error('spawned without a process id'));
      else resolve(child.pid);
    });
  });
}

function collectOutput(child: ChildProcess, file: string): void {
  child.stdout?.pipe(new OutputLog(`${file}.stdout.log`));
  child.stderr?.pipe(new OutputLog(`${file}.stderr.log`));
}

function isNoSuchProcess(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ESRCH';
}
