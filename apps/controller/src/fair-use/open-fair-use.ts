import type { FairUseConfig, Role } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import { addFairUseGauges, countRefusals } from './fair-use-metrics.ts';
import { createFairUse } from './fair-use.ts';
import { createRates } from './rates.ts';
import { createStreamPacer } from './stream-pacer.ts';

/** Everything that keeps one caller from starving the others. */
export type FairUseParts = ReturnType<typeof openFairUse>;

export function openFairUse({
  store,
  config,
  metrics,
  log,
}: {
  readonly store: Pick<Store, 'guests' | 'clock'>;
  readonly config: FairUseConfig;
  readonly metrics: Registry;
  readonly log: Logger;
}) {
  const refusals = countRefusals(metrics);
  // Monotonic, and cheap enough for each call; only fair use goes by it.
  const nowMs = (): number => performance.now();
  const rates = createRates({
    nowMs,
    anonymousPerSecondMax: config.anonymous.callsPerSecond,
    onRefusal: (limit) => refusals.inc({ limit, role: 'none' }),
  });
  const fairUse = createFairUse({
    ...{ store, rates, nowMs, log },
    limits: config.limits,
    onRefusal: (limit, role) => refusals.inc({ limit, role }),
  });
  addFairUseGauges(metrics, {
    greatestUseOf: (limit) => fairUse.greatestUseOf(limit),
    waitingReads: () => fairUse.lane.waitingCount,
  });
  const onOverload = (role: Role): void => refusals.inc({ limit: 'load', role });
  return { rates, fairUse, pacer: createStreamPacer(nowMs), nowMs, onOverload };
}
