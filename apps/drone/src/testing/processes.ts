import { readdirSync, readFileSync } from 'node:fs';

/** Whether a process runs; one that has ended and was not reaped does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/mu.test(readFileSync(`/proc/${String(pid)}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Running processes whose command line holds the marker, whatever their parent is. */
export function processesWith(marker: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .filter((pid) => isRunning(pid) && commandLineOf(pid).includes(marker));
}

/** The running children of a process whose command line holds the marker. */
export function childrenWith(parent: number, marker: string): number[] {
  return processesWith(marker).filter((pid) => parentOf(pid) === parent);
}

/** Undefined when it ended while it was being read. */
function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8');
  } catch {
    return ''; // it ended while it was being read
  }
}
