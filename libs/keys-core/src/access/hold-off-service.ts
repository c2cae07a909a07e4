import {
  endHoldOff,
  type HoldOff,
  type HoldOffService,
  type HoldOffView,
  readHoldOff,
} from '../postgres/witness/epoch.ts';
import type { Store } from '../postgres/open-store.ts';
import { writeAudit } from './sql/audit.ts';

/** The time after a restore in which nothing new is granted. */
export function createHoldOffService(store: Pick<Store, 'general' | 'witness'>): HoldOffService {
  return {
    get: async () => holdOffView(await readHoldOff(store.general)),
    async end({ reason, epoch }, actor) {
      // A change that nobody has recorded yet would start a hold-off again a moment later.
      await store.witness.look();
      return store.general.$transaction(async (tx) => {
        const ended = holdOffView(await endHoldOff(tx, epoch));
        if (ended !== null) {
          const { cause, since, until } = ended;
          await writeAudit(tx, {
            ...actor,
            action: 'holdOff.end',
            resource: 'database',
            reason,
            detail: { cause, since, until },
          });
        }
        return { ended, remaining: holdOffView(await readHoldOff(tx)) };
      });
    },
  };
}

/** The form on the wire. */
export function holdOffView(holdOff: HoldOff | null): HoldOffView | null {
  if (holdOff === null) return null;
  const { since, until, remainingMs, cause, epoch } = holdOff;
  return {
    since: since === null ? null : new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    remainingMs: Math.ceil(remainingMs),
    cause,
    epoch,
  };
}
