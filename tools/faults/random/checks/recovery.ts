import type { FaultSeen, History, Starved, Violation } from '../history.ts';

/**
 * For how long the run wanted the processor within a span of time, and others had it. No bound of the product
 * can be kept then, so such time does not count.
 */
export function starvedMs(starved: readonly Starved[], fromMs: number, untilMs: number): number {
  return starved
    .filter((one) => one.untilMs > fromMs && one.fromMs < untilMs)
    .reduce((sum, { waitedMs }) => sum + waitedMs, 0);
}

/**
 * Everything works again in time after each fault. Where another fault was in the way, the time counts from
 * the end of the last of those that overlap.
 */
export function checkRecovery({ faults, starved, endedAtMs }: History): Violation[] {
  return faults.flatMap((fault): Violation[] => {
    const sinceMs = settledAtMs(fault, faults);
    const tookMs = fault.recoveredAtMs - sinceMs - starvedMs(starved, sinceMs, fault.recoveredAtMs);
    if (tookMs <= fault.recoveryMsMax) return [];
    const text = `${fault.id} ${fault.name} (${fault.target}): recovered after ${tookMs.toFixed(0)} ms, ${String(fault.recoveryMsMax)} ms are allowed`;
    return [{ invariant: 'recovery', atMs: Math.min(fault.recoveredAtMs, endedAtMs), text }];
  });
}

/** No fault ends a service that uses the client library: what it throws reaches who called it. */
export function checkCrashes({ crashes }: History): Violation[] {
  return crashes.map(({ process: name, atMs, exit }) => ({
    ...{ invariant: 'crash', atMs, text: `${name} ended by itself with ${exit}: see its log` },
  }));
}

/** How long it took to recover from a fault, from its end or from that of the last one that was in the way. */
export function recoveryMs(fault: FaultSeen, faults: readonly FaultSeen[]): number {
  return Math.max(0, fault.recoveredAtMs - settledAtMs(fault, faults));
}

/** Faults are in the way of each other where they disturb the same. */
function settledAtMs(fault: FaultSeen, faults: readonly FaultSeen[]): number {
  const others = faults.filter(
    (other) =>
      other.fromMs < fault.recoveredAtMs &&
      other.recoveredAtMs > fault.untilMs &&
      other.reaches.some((reach) => fault.reaches.includes(reach)),
  );
  return Math.max(fault.untilMs, ...others.map(({ untilMs }) => untilMs));
}
