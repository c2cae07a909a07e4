import { setTimeout as pause } from 'node:timers/promises';
import type { Figure } from '../rig/figures.ts';
import { milliseconds } from '../rig/quantities.ts';
import type { LockService } from '../services/lock-service.ts';
import { openLockServices } from '../services/lock-services.ts';
import type { Rig } from '../rig/rig.ts';
import { quantile } from '../rig/rounds.ts';

const CONTENDER_COUNT = 8;
/** Long enough that the former holder waits in line again. */
const HOLD_MS = 5;

/** From the call that releases a lease to the moment when the next one in line knows that it holds it. */
export async function measureHandover(rig: Rig): Promise<Figure[]> {
  const { ours, peers } = await openLockServices(rig, 'bench_handover');
  const durationMs = rig.isQuick ? 1_000 : 8_000;
  const services: { name: string; takenMs: number[] }[] = [];
  for (const service of [ours, ...peers]) {
    services.push({ name: service.name, takenMs: await handoversMs(service, durationMs) });
  }
  return [
    { label: 'p50', share: 0.5 },
    { label: 'p99', share: 0.99 },
  ].flatMap(({ label, share }) =>
    services.map(({ name, takenMs }): Figure => ({
      what: `handover of a contended lease, ${label}: ${name}`,
      result: milliseconds(quantile(takenMs, share)),
      bar: { chart: 'Handover of a contended lease, in milliseconds', group: label, name },
    })),
  );
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
