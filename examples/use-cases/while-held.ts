import { LeaseError, type Clock } from '@leasehold/keys-core';
import type { CoordinatedLease, LeaseCoordinator, LeaseUseCase } from '@leasehold/keys-core/leases';

/** How long to wait before a heartbeat that nobody answered is sent again. */
const RETRY_MS = 250;

export interface Holder {
  readonly coordinator: LeaseCoordinator;
  /** The clock that the coordinator's store was opened with. */
  readonly clock: Clock;
}

/**
 * Does `work` and heartbeats its lease meanwhile. `signal` aborts when the lease is lost: when a
 * heartbeat is refused, or at the holder's own deadline when none is answered. Whatever `work` does
 * then, its result is not waited for.
 * @throws {LeaseError} `lease.lost`; what `work` throws.
 */
export async function whileHeld<Success, Result>(
  { coordinator, clock }: Holder,
  { lease, granted }: { lease: LeaseUseCase<Success>; granted: CoordinatedLease },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const holding = new AbortController();
  let cancelRenewal = (): void => undefined;
  let cancelDeadline = (): void => undefined;
  const stop = (): void => {
    cancelRenewal();
    cancelDeadline();
  };
  const lose = (): void => {
    stop();
    holding.abort(new LeaseError('lease.lost', undefined, { details: { reason: 'expired' } }));
  };
  const askAt = (atMs: number): void => {
    cancelRenewal = clock.at(atMs, () => void heartbeat());
  };
  const keep = ({ renewAtMs, loseAtMs }: CoordinatedLease['deadlines']): void => {
    stop();
    cancelDeadline = clock.at(loseAtMs, lose);
    askAt(renewAtMs);
  };
  let isOver = false;
  const heartbeat = async (): Promise<void> => {
    const answer = await coordinator.heartbeat(lease).catch(() => undefined);
    if (isOver || holding.signal.aborted) return;
    if (answer === undefined) askAt(clock.nowMs() + RETRY_MS);
    else if (answer.outcome === 'renewed') keep(answer.deadlines);
    else lose();
  };

  const lost = new Promise<never>((_resolve, reject) => {
    holding.signal.addEventListener('abort', () => {
      reject(holding.signal.reason as LeaseError);
    });
  });
  keep(granted.deadlines);
  try {
    return await Promise.race([work(holding.signal), lost]);
  } finally {
    isOver = true;
    stop();
  }
}
