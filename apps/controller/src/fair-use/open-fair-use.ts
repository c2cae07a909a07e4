import { FAIR_USE_LIMITS, type FairUseConfig } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger, Registry } from '@leasehold/service-kit';
import { Counter, Gauge } from 'prom-client';
import { createFairUse, type FairUse } from './fair-use.ts';
import { createRates, type Rates } from './rates.ts';
import { createStreamPacer, type StreamPacer } from './stream-pacer.ts';

/** Everything that keeps one caller from starving the others. */
export interface FairUseParts {
  readonly rates: Rates;
  readonly fairUse: FairUse;
  readonly pacer: StreamPacer;
  /** A monotonic reading in milliseconds that is cheap enough for each call; only fair use goes by it. */
  readonly nowMs: () => number;
}

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
}): FairUseParts {
  const refusals = new Counter({
    name: 'leasehold_limit_refusals_total',
    help: 'Calls, connections and streams that were refused by a limit of fair use, by limit and role; the role is "none" for callers without a valid token.',
    labelNames: ['limit', 'role'],
    registers: [metrics],
  });
  const rates = createRates({
    anonymousPerSecondMax: config.anonymous.callsPerSecond,
    onRefusal: (limit) => {
      refusals.inc({ limit, role: 'none' });
    },
  });
  const nowMs = (): number => performance.now();
  const fairUse = createFairUse({
    ...{ store, rates, nowMs, log },
    limits: config.limits,
    onRefusal: (limit, role) => {
      refusals.inc({ limit, role });
    },
  });
  addGauges(metrics, fairUse);
  return { rates, fairUse, pacer: createStreamPacer(), nowMs };
}

function addGauges(metrics: Registry, fairUse: FairUse): void {
  new Gauge({
    name: 'leasehold_limit_use_ratio',
    help: 'Share of a limit that its heaviest user uses, from 0 to 1.',
    labelNames: ['limit'],
    registers: [metrics],
    collect() {
      for (const limit of FAIR_USE_LIMITS) {
        const ratio = fairUse.greatestUseOf(limit);
        if (ratio !== undefined) this.set({ limit }, ratio);
      }
    },
  });
  new Gauge({
    name: 'leasehold_waiting_reads',
    help: 'Reads that wait for their turn.',
    registers: [metrics],
    collect() {
      this.set(fairUse.lane.waitingCount);
    },
  });
}
