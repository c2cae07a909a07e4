import { readdirSync, readFileSync } from 'node:fs';

/** Living processes whose command line holds the marker, whoever their parent is. */
export function processesWith(marker: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .filter((pid) => {
      try {
        const isZombie = /^State:\s+Z/mu.test(readFileSync(`/proc/${String(pid)}/status`, 'utf8'));
        return !isZombie && readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').includes(marker);
      } catch {
        return false; // it ended while it was looked at
      }
    });
}
