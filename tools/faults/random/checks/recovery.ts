import type { FaultSeen, History, Violation } from '../history.ts';

/**
 * Everything works again in time after each fault. Where another fault was in the way, the time counts from
 * the end of the last of those that overlap.
 */
export function checkRecovery({ faults, endedAtMs }: History): Violation[] {
  return faults.flatMap((fault): Violation[] => {
    const tookMs = fault.recoveredAtMs - settledAtMs(fault, faults);
    if (tookMs <= fault.recoveryMsMax) return [];
    const text = `${fault.id} ${fault.name} (${fault.target}): recovered after ${tookMs.toFixed(0)} ms, ${String(fault.recoveryMsMax)} ms are allowed`;
    return [{ invariant: 'recovery', atMs: Math.min(fault.recoveredAtMs, endedAtMs), text }];
  });
}

/** How long a fault took to recover from, if no other was in the way. */
export function aloneRecoveryMs(
  fault: FaultSeen,
  faults: readonly FaultSeen[],
): number | undefined {
  const isAlone = settledAtMs(fault, faults) === fault.untilMs;
  return isAlone ? Math.max(0, fault.recoveredAtMs - fault.untilMs) : undefined;
}

function settledAtMs(fault: FaultSeen, faults: readonly FaultSeen[]): number {
  const others = faults.filter(
    (other) => other.fromMs < fault.recoveredAtMs && other.recoveredAtMs > fault.untilMs,
  );
  return Math.max(fault.untilMs, ...others.map(({ untilMs }) => untilMs));
}
