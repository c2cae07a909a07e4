/** When holders are told that they hold nothing any more. */
import type { FaultSeen, History, Violation } from '../history.ts';
import { MAPPING_MS } from './exclusion.ts';
import { starvedMs } from './recovery.ts';

/** The library stops so much before its own deadline, because it checks the clock every 50 ms. */
const LEAD_MS = 100;
/** A process that got no turn for so long cannot have checked its clock in time. */
const TURN_MS_MAX = 40;
/** I15, on a machine that many processes share. */
const NOTICE_MS_MAX = 1_000;

/** I4: the signal aborts by the holder's own deadline, or at the first turn of a process that had none. */
export function checkSignals({ holds }: History): Violation[] {
  return holds.flatMap((hold): Violation[] => {
    const allowedMs = LEAD_MS + Math.max(0, hold.stallMs - TURN_MS_MAX);
    if (hold.end !== 'lost' || hold.lateMs <= allowedMs) return [];
    const text = `${hold.resource} ${hold.token}: the signal aborted ${hold.lateMs.toFixed(0)} ms late`;
    return [{ invariant: 'I4', atMs: hold.untilMs, text }];
  });
}

/** I15: a force revoke reaches a connected holder within a second. */
export function checkNotices({ operations, holds, faults, starved }: History): Violation[] {
  const byLease = new Map(holds.map((hold) => [hold.leaseId, hold]));
  return operations.flatMap((operation): Violation[] => {
    const hold = operation.kind === 'revoke' ? byLease.get(operation.leaseId) : undefined;
    if (hold === undefined || operation.answer.outcome !== 'answered') return [];
    const dueAtMs = operation.repliedAtMs + NOTICE_MS_MAX + Math.max(0, hold.stallMs);
    const isConnected = !faults.some((fault) => isBetween(fault, hold.fromMs, dueAtMs));
    const slowMs = MAPPING_MS + starvedMs(starved, operation.repliedAtMs, hold.untilMs);
    if (!isConnected || hold.end === 'died' || hold.untilMs <= dueAtMs + slowMs) return [];
    const lateMs = hold.untilMs - operation.repliedAtMs;
    const text = `${hold.resource} ${hold.token}: its holder was told ${lateMs.toFixed(0)} ms after the revoke`;
    return [{ invariant: 'I15', atMs: hold.untilMs, text }];
  });
}

function isBetween(fault: FaultSeen, fromMs: number, untilMs: number): boolean {
  return fault.reaches.includes('leases') && fault.fromMs < untilMs && fault.recoveredAtMs > fromMs;
}
