/** What Linux says of the processes of this machine. One that ends while it is read is left out. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether a process runs; one that has ended and was not reaped does not. */
export function isRunning(pid: number): boolean {
  return /^State:\s+[^Z]/mu.test(readProcess(pid, 'status'));
}

/** Running processes whose command line, or whose environment, holds a text, whatever their parent is. */
export function processesWith(text: string, file: 'cmdline' | 'environ' = 'cmdline'): number[] {
  return running().filter((pid) => pid !== process.pid && readProcess(pid, file).includes(text));
}

/** The command line of a process, with spaces between its words; empty when it has ended. */
export function commandLineOf(pid: number): string {
  return readProcess(pid, 'cmdline').replaceAll('\0', ' ');
}

/** The running processes that a process has started, and whose command line holds a text. */
export function childrenOf(parent: number, text = ''): number[] {
  return processesWith(text).filter((pid) => parentOf(pid) === parent);
}

/** The running processes that a process has started, those that they have started, and so on. */
export function descendantsOf(ancestor: number): number[] {
  const parents = new Map(running().map((pid) => [pid, parentOf(pid)]));
  const isBelow = (pid = 0): boolean => pid === ancestor || (pid > 0 && isBelow(parents.get(pid)));
  return [...parents].flatMap(([pid, parent]) => (isBelow(parent) ? [pid] : []));
}

/** Signals a process, which may have ended since it was found. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function running(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && isRunning(pid));
}

function parentOf(pid: number): number {
  const [, parent = ''] = /^PPid:\s+(\d+)$/mu.exec(readProcess(pid, 'status')) ?? [];
  return Number(parent);
}

function readProcess(pid: number, file: 'cmdline' | 'environ' | 'status'): string {
  try {
    return readFileSync(`/proc/${String(pid)}/${file}`, 'latin1');
  } catch {
    return '';
  }
}
