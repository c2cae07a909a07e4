import { processesWith } from '@leasehold/testing/stack';

/** All processes of a backend, by the machine's own numbers: the program, and what starts and ends it. */
export function processesOf(backendId: string): number[] {
  return processesWith(backendId, 'environ');
}

/** The process that ends a warden which has not acted in time. */
export function leashOf(wardenPid: number): number[] {
  return processesWith(`leasehold-leash\0${String(wardenPid)}\0`);
}
