import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

/** A user of this machine. */
export interface MachineUser {
  readonly uid: number;
  readonly gid: number;
}

/** How to start a process of Leasehold. */
export interface ProcessSpec {
  /** What it is called in messages. */
  readonly name: string;
  /** The program and its arguments; Node's own unless `command` is given. */
  readonly args: readonly string[];
  readonly command?: string | undefined;
  /** Its whole environment, except for PATH. */
  readonly env: Readonly<Record<string, string>>;
  /** How long it may take to be ready; 30 s by default. */
  readonly readyMsMax?: number | undefined;
  /** Who runs it; by default who runs the test. */
  readonly user?: MachineUser | undefined;
  /** Called with each part that it prints, also before it is ready. */
  readonly onPrinted?: ((text: string) => void) | undefined;
}

/** A process of Leasehold that a test started. */
export interface TestProcess {
  readonly pid: number;
  /** Its message when it was ready. */
  readonly ready: Readonly<Record<string, unknown>>;
  /** Everything that it has printed. */
  log(): string;
  /** Fulfilled when it has ended, with its exit code or signal. */
  readonly exited: Promise<number | NodeJS.Signals>;
  signal(signal: NodeJS.Signals): void;
  /** Asks it to end and waits; kills it when it takes longer than `timeoutMs`. */
  stop(timeoutMs?: number): Promise<number | NodeJS.Signals>;
  /** `kill -9`, and waits until it is gone. */
  kill(): Promise<void>;
}

const READY_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;

/**
 * Starts a process in a session of its own and returns when it has reported that it is ready. It ends
 * with the process that runs the tests, whose channel it listens to. The caller that starts it stops it.
 */
export async function startProcess(spec: ProcessSpec): Promise<TestProcess> {
  const child = spawn(spec.command ?? process.execPath, spec.args, {
    env: { PATH: process.env['PATH'], ...spec.env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    ...spec.user,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      spec.onPrinted?.(text);
    });
  }
  const exited = exitOf(child);
  const readyMsMax = spec.readyMsMax ?? READY_TIMEOUT_MS;
  const ready = await Promise.race([
    readyOf(child),
    exited.then((how) => `ended with ${String(how)}`),
    sleep(readyMsMax, `was not ready in ${String(readyMsMax)} ms`, { ref: false }),
  ]);
  if (typeof ready === 'string') {
    child.kill('SIGKILL');
    await exited;
    throw new Error(`the ${spec.name} ${ready}\n${printed}`);
  }
  return {
    pid: child.pid ?? 0,
    ready,
    log: () => printed,
    exited,
    signal: (signal) => void child.kill(signal),
    async stop(timeoutMs = STOP_TIMEOUT_MS) {
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      await Promise.race([exited, sleep(timeoutMs, undefined, { ref: false })]);
      child.kill('SIGKILL');
      return exited;
    },
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function exitOf(child: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      resolve(signal ?? code ?? 1);
    });
    child.once('error', () => {
      resolve(1);
    });
  });
}

function readyOf(child: ChildProcess): Promise<Record<string, unknown>> {
  return new Promise((resolve) => {
    child.on('message', (message) => {
      const said = message as Record<string, unknown>;
      if (said['type'] === 'ready') resolve(said);
    });
  });
}
