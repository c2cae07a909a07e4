/** What Linux says about a process. */
import { readFileSync } from 'node:fs';
import { invariant } from '@leasehold/keys-core';

/** The memory that a process has at this moment, in bytes. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/mu.exec(status) ?? [];
  invariant(kilobytes !== undefined, 'a process says how much memory it has');
  return Number(kilobytes) * 1_024;
}
