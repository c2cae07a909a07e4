import { setTimeout as pause } from 'node:timers/promises';
import { milliseconds, times, type Figure } from './rig/figures.ts';
import type { LockService } from './services/lock-service.ts';
import { openLockServices } from './services/lock-services.ts';
import type { Rig } from './rig/rig.ts';
import { quantile } from './rig/rounds.ts';

const CONTENDER_COUNT = 8;
/** Long enough that the former holder waits in line again. */
const HOLD_MS = 5;

/** From the call that releases a lease to the moment when the next one in line knows that it holds it. */
export async function measureHandover(rig: Rig): Promise<Figure[]> {
  const { ours, peers } = await openLockServices(rig, 'bench_handover');
  const durationMs = rig.isQuick ? 1_000 : 8_000;
  const ourMs = await handoversMs(ours, durationMs);
  const figures: Figure[] = [];
  const peerMs: { name: string; takenMs: number[] }[] = [];
  for (const peer of peers) {
    peerMs.push({ name: peer.name, takenMs: await handoversMs(peer, durationMs) });
  }
  for (const { label, share } of [
    { label: 'p50', share: 0.5 },
    { label: 'p99', share: 0.99 },
  ]) {
    const what = `handover of a contended lease, ${label}`;
    const mine = quantile(ourMs, share);
    if (peers.length === 0) {
      figures.push({ what, ours: milliseconds(mine), theirs: '', result: '' });
    }
    for (const { name, takenMs } of peerMs) {
      const theirs = quantile(takenMs, share);
      figures.push({
        what: `${what}, against ${name}`,
        ours: milliseconds(mine),
        theirs: milliseconds(theirs),
        result: `${times(mine / theirs)} the time`,
      });
    }
  }
  return figures;
}

/**
 * Hands one lease around among contenders that hold it for a moment. After a release, a contender waits
 * in line again only when the next one has the lease, so that each handover is to another contender.
 */
async function handoversMs(service: LockService, durationMs: number): Promise<number[]> {
  const takenMs: number[] = [];
  const endsAtMs = performance.now() + durationMs;
  let releasedAtMs: number | undefined;
  let onNext: () => void = () => undefined;
  const contend = async (): Promise<void> => {
    while (performance.now() < endsAtMs) {
      const held = await service.wait('handover');
      if (releasedAtMs !== undefined) takenMs.push(performance.now() - releasedAtMs);
      onNext();
      await pause(HOLD_MS);
      const nextHolds = new Promise<void>((resolve) => {
        onNext = resolve;
      });
      const isLast = performance.now() >= endsAtMs;
      releasedAtMs = isLast ? undefined : performance.now();
      await held.release();
      // At the end the line runs empty: the last contender waits for nobody.
      if (!isLast) await nextHolds;
    }
  };
  await Promise.all(Array.from({ length: CONTENDER_COUNT }, () => contend()));
  return takenMs;
}
