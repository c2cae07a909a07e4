import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runFilePath, writePrivateJson, type RunFile } from '../home.ts';
import { identityOf, isRunning, signalProcess, type ProcessIdentity } from '../processes.ts';

const RETRY_MS = 5_000;

/**
 * Keeps `run.json`, and the list of processes that a later run ends, up to date.
 * @param onProblem called with the reason why the record could not be written.
 */
export function keepRunRecord(
  home: string,
  run: () => RunFile,
  onProblem: (error: unknown) => void,
) {
  let retry: NodeJS.Timeout | undefined;

  /** Writes what runs now. */
  function write(): void {
    const now = run();
    writePrivateJson(runFilePath(home), now);
    const { controller, console, gateway, agent } = now.pids;
    writeProcesses(home, [controller, console, gateway, agent]);
  }

  /** As `write`; a failure is reported, and the write is retried later. */
  function update(): void {
    clearTimeout(retry);
    try {
      write();
    } catch (error) {
      onProblem(error);
      retry = setTimeout(update, RETRY_MS);
      retry.unref();
    }
  }

  return {
    write,
    update,
    close() {
      clearTimeout(retry);
    },
  };
}

/** How long what an earlier run left behind may take to end, before it is killed. */
const END_TIMEOUT_MS = 20_000;
const POLL_MS = 50;

function processesPath(home: string): string {
  return join(home, 'processes.json');
}

/**
 * Writes down which processes belong to this home, each so exactly that a later run cannot mistake
 * another one for it.
 */
function writeProcesses(home: string, pids: readonly (number | null)[]): void {
  const identities = pids.flatMap((pid) => (pid === null ? [] : (identityOf(pid) ?? [])));
  writePrivateJson(processesPath(home), identities);
}

/** Forgets the processes of a run that has ended. */
export function forgetRun(home: string): void {
  rmSync(runFilePath(home), { force: true });
  rmSync(processesPath(home), { force: true });
}

/**
 * Ends the processes that a killed `leasehold up` of this home left behind. They notice by
 * themselves that it is gone; this waits for them, and kills those that take too long.
 * @returns how many there were.
 */
export async function endLeftovers(home: string): Promise<number> {
  const running = readProcesses(home).filter(isRunning);
  for (const process of running) signalProcess(process, 'SIGTERM');
  await untilGone(running, END_TIMEOUT_MS);
  for (const process of running) signalProcess(process, 'SIGKILL');
  await untilGone(running, END_TIMEOUT_MS);
  forgetRun(home);
  return running.length;
}

/** Waits until all are gone, for a bounded time. @returns whether they are. */
export async function untilGone(
  processes: readonly ProcessIdentity[],
  timeoutMs: number,
): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (processes.some(isRunning)) {
    if (performance.now() > deadlineMs) return false;
    await delay(POLL_MS);
  }
  return true;
}

function readProcesses(home: string): ProcessIdentity[] {
  try {
    return JSON.parse(readFileSync(processesPath(home), 'utf8')) as ProcessIdentity[];
  } catch {
    // Nothing was written down, or only a part: then no process is known to be ours.
    return [];
  }
}
