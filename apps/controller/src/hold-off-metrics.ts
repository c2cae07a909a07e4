import { readHoldOff, type HoldOffCause, type Store } from '@leasehold/keys-core/postgres';
import type { Registry } from '@leasehold/service-kit';
import { Counter, Gauge } from 'prom-client';

/** The metrics of restores, and of the time after one in which nothing new is granted. */
export interface HoldOffMetrics {
  /** This controller has found the database restored or failed over. */
  heldOff(cause: HoldOffCause): void;
  /** Shows how much longer new grants are held off. */
  follow(store: Store): void;
}

export function createHoldOffMetrics(registry: Registry): HoldOffMetrics {
  const holdOffs = new Counter({
    name: 'leasehold_hold_offs_total',
    help: 'Restores and failovers of the database that this controller detected, by cause.',
    labelNames: ['cause'],
    registers: [registry],
  });
  return {
    heldOff(cause) {
      holdOffs.inc({ cause });
    },
    follow(store) {
      new Gauge({
        name: 'leasehold_hold_off_remaining_ms',
        help: 'How long new grants will still be held off; 0 if they are not.',
        registers: [registry],
        async collect() {
          this.set((await readHoldOff(store.prisma))?.remainingMs ?? 0);
        },
      });
    },
  };
}
