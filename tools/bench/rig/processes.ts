/** What Linux says about a process. */
import { readdirSync, readFileSync } from 'node:fs';
import { invariant } from '@leasehold/keys-core';

/** The memory that a process has at this moment, in bytes. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/mu.exec(status) ?? [];
  invariant(kilobytes !== undefined, 'a process says how much memory it has');
  return Number(kilobytes) * 1_024;
}

/** The processes that a process has started and that still run, with their command lines. */
export function childrenOf(pid: number): { readonly pid: number; readonly command: string }[] {
  const children: { pid: number; command: string }[] = [];
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/u.test(entry))) {
    try {
      const [, parent] = /\) \S (\d+) /u.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? [];
      if (Number(parent) !== pid) continue;
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
      children.push({ pid: Number(name), command });
    } catch {
      // It has ended meanwhile.
    }
  }
  return children;
}
