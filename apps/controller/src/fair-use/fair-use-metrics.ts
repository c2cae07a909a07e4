import { FAIR_USE_LIMITS, type FairUseLimit } from '@leasehold/keys-core';
import type { Registry } from 'prom-client';
import { instrumentsOf } from '../instruments.ts';

/** What is counted about limits. */
export function countRefusals(registry: Registry) {
  return instrumentsOf(registry).counter(
    'limit_refusals_total',
    'Calls, connections and streams that were refused by a limit of fair use, by limit and role; the limit is "load" for calls that an overloaded controller refuses, and the role is "none" for callers without a valid token.',
    ['limit', 'role'],
  );
}

/** Gauges that are read when the metrics are requested. */
export function addFairUseGauges(
  registry: Registry,
  read: {
    readonly greatestUseOf: (limit: FairUseLimit) => number | undefined;
    readonly waitingReads: () => number;
  },
): void {
  const { gauge, gauges } = instrumentsOf(registry);
  gauges('limit_use_ratio', 'Share of a limit that its heaviest user uses, from 0 to 1.', {
    label: 'limit',
    read: () =>
      Object.fromEntries(
        FAIR_USE_LIMITS.flatMap((limit) => {
          const ratio = read.greatestUseOf(limit);
          return ratio === undefined ? [] : [[limit, ratio]];
        }),
      ),
  });
  gauge('waiting_reads', 'Reads that wait for their turn.', read.waitingReads);
}
