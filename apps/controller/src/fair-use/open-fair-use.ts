import { FAIR_USE_LIMITS, type FairUseConfig, type Role } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import { instrumentsOf } from '../instruments.ts';
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
  const { counter, gauge, gauges } = instrumentsOf(metrics);
  const refusals = counter(
    'limit_refusals_total',
    'Calls, connections and streams that were refused by a limit of fair use, by limit and role; the limit is "load" for calls that an overloaded controller refuses, and the role is "none" for callers without a valid token.',
    ['limit', 'role'],
  );
  const rates = createRates({
    anonymousPerSecondMax: config.anonymous.callsPerSecond,
    onRefusal: (limit) => refusals.inc({ limit, role: 'none' }),
  });
  // Monotonic, and cheap enough for each call; only fair use goes by it.
  const nowMs = (): number => performance.now();
  const fairUse = createFairUse({
    ...{ store, rates, nowMs, log },
    limits: config.limits,
    onRefusal: (limit, role) => refusals.inc({ limit, role }),
  });
  gauges('limit_use_ratio', 'Share of a limit that its heaviest user uses, from 0 to 1.', {
    label: 'limit',
    read: () =>
      Object.fromEntries(
        FAIR_USE_LIMITS.flatMap((limit) => {
          const ratio = fairUse.greatestUseOf(limit);
          return ratio === undefined ? [] : [[limit, ratio]];
        }),
      ),
  });
  gauge('waiting_reads', 'Reads that wait for their turn.', () => fairUse.lane.waitingCount);
  const onOverload = (role: Role): void => refusals.inc({ limit: 'load', role });
  return { rates, fairUse, pacer: createStreamPacer(), nowMs, onOverload };
}
