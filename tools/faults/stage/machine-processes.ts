import { readdirSync, readFileSync } from 'node:fs';

/** All processes of a backend, by the machine's own numbers: the program, and what starts and ends it. */
export function processesOf(backendId: string): number[] {
  return processesWith('environ', backendId);
}

/** The process that ends a warden which has not acted in time. */
export function leashOf(wardenPid: number): number[] {
  return processesWith('cmdline', `leasehold-leash\0${String(wardenPid)}\0`);
}

function processesWith(file: 'environ' | 'cmdline', text: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && textOf(pid, file).includes(text));
}

function textOf(pid: number, file: 'environ' | 'cmdline'): string {
  try {
    return readFileSync(`/proc/${String(pid)}/${file}`, 'latin1');
  } catch {
    return ''; // it ended while it was read
  }
}
