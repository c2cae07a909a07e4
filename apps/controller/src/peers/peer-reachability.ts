import { LeaseError, type Clock, type ErrorCode } from '@leasehold/keys-core';

/** How long after a failure nobody tries again. */
const REST_MS = 1_000;

/** Whether a datacenter can be reached, by the outcome of the last calls. */
export interface PeerReachability {
  /** It answered, if only with an error. @param roundTripMs of a request that takes it no time. */
  answered(roundTripMs?: number): void;
  /** A connection could not be made or broke, or it refused the credentials. */
  failed(code: ErrorCode): void;
  /** It did not answer a probe: what is under way ends, for its answer would not come either. */
  silent(code: ErrorCode): void;
  /** @returns a function that ends it. */
  onSilence(end: () => void): () => void;
  /** A call of our own finds out, so nobody else needs to. @returns a function that ends it. */
  probing(): () => void;
  /** Since when it cannot be reached, and why; null while it can, or before it was ever asked. */
  away(): { readonly since: string; readonly code: ErrorCode } | null;
  readonly roundTripMs: number | null;
  /** @throws {LeaseError} `reservation.datacenter_unreachable` while trying would only take time. */
  assertReachable(): void;
}

export function createPeerReachability(options: {
  readonly datacenter: string;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Called when it becomes unreachable, and when it is back. */
  readonly onChange: (code: ErrorCode | null) => void;
}): PeerReachability {
  const { datacenter, clock, onChange } = options;
  let away: { readonly since: string; readonly code: ErrorCode } | null = null;
  let failedAtMs = -Infinity;
  let probeCount = 0;
  let roundTripMs: number | null = null;
  const underWay = new Set<() => void>();
  const failed = (code: ErrorCode): void => {
    failedAtMs = clock.nowMs();
    const isNews = away?.code !== code;
    away = { since: away?.since ?? new Date().toISOString(), code };
    if (isNews) onChange(code);
  };
  return {
    answered(tookMs) {
      if (tookMs !== undefined) roundTripMs = Math.round(tookMs * 10) / 10;
      if (away === null) return;
      away = null;
      onChange(null);
    },
    failed,
    silent(code) {
      failed(code);
      for (const end of underWay) end();
    },
    onSilence(end) {
      underWay.add(end);
      return () => {
        underWay.delete(end);
      };
    },
    probing() {
      probeCount += 1;
      return () => {
        probeCount -= 1;
      };
    },
    away: () => away,
    get roundTripMs() {
      return roundTripMs;
    },
    assertReachable() {
      if (away === null) return;
      if (probeCount === 0 && clock.nowMs() - failedAtMs >= REST_MS) return;
      throw new LeaseError(
        'reservation.datacenter_unreachable',
        `The datacenter "${datacenter}" cannot be reached.`,
        { details: { datacenter, since: away.since } },
      );
    },
  };
}
