import type { Registry } from 'prom-client';
import { instrumentsOf } from '../instruments.ts';

/** What is counted about restores and failovers of the database. */
export function countHoldOffs(registry: Registry) {
  return instrumentsOf(registry).counter(
    'hold_offs_total',
    'Restores and failovers of the database that this controller detected, by cause.',
    ['cause'],
  );
}

/** A gauge that is read when the metrics are requested. */
export function addHoldOffGauge(registry: Registry, remainingMs: () => Promise<number>): void {
  instrumentsOf(registry).gauge(
    'hold_off_remaining_ms',
    'How long new grants will still be held off; 0 if they are not.',
    remainingMs,
  );
}
