import { readFileSync } from 'node:fs';

/**
 * One process, told apart from a later one with the same number: the kernel's time of its start,
 * together with the boot that it belongs to. `startedAt` is null where the system does not report
 * it; then only the number identifies the process.
 */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string | null;
}

/** The identity of a process that runs now; undefined when it does not exist, or is a zombie. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  if (!isSignalable(pid)) return undefined;
  if (process.platform !== 'linux') return { pid, startedAt: null };
  const fields = statFieldsOf(String(pid));
  if (fields === undefined || isEnded(fields[0] ?? '')) return undefined;
  const bootId = readOrUndefined('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
  return { pid, startedAt: `${bootId}/${fields[19] ?? ''}` };
}

/** What `/proc` says about a process, from its state on; undefined when it says nothing. */
export function statFieldsOf(pid: string): string[] | undefined {
  const stat = readOrUndefined(`/proc/${pid}/stat`);
  // The name of the program is in parentheses and may hold anything, also parentheses.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Whether a process of this state has ended, and is merely not waited for yet. */
export function isEnded(state: string): boolean {
  return state === 'Z' || state === 'X';
}

/** Whether this very process runs, not merely one with its number. */
export function isRunning(identity: ProcessIdentity): boolean {
  const now = identityOf(identity.pid);
  return now?.startedAt === identity.startedAt;
}

/** Sends a signal to this very process; does nothing when it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isRunning(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch (error) {
    if (!isErrorCode(error, 'ESRCH')) throw error;
  }
}

function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrorCode(error, 'EPERM');
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Whether an error of the operating system carries this code. */
export function isErrorCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}
