import { removeOldBulks } from '@leasehold/keys-core/bulk';
import { removeOldFleetRows } from '@leasehold/keys-core/fleet';
import { removeOldLeaseRows } from '@leasehold/keys-core/grants';
import { dropOldDeclarations } from '@leasehold/keys-core/leases';
import { removeOldPeopleRows } from '@leasehold/keys-core/access';
import {
  removeOldClockJumps,
  removeOldWitnesses,
  type RetentionPass,
  type Store,
} from '@leasehold/keys-core/postgres';
import { removeOldBuckets, removeOldRefusals, removeRefusals } from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import { MORE, type Backlogs } from './backlogs.ts';

/** How often all kinds are looked at; what has a backlog goes on in between, without a pause. */
export const RETENTION_EVERY_MS = 60_000;

interface RetentionDeps {
  readonly store: Pick<Store, 'general' | 'clock'>;
  readonly log: Pick<Logger, 'warn'>;
  readonly retentionDays: number;
  readonly backlogs: Backlogs;
}

/**
 * One round of removing what nobody needs any more. Kinds take turns of a second; those that have more go on,
 * so that no kind grows because rows come faster than a turn in each minute removes them.
 * @returns {@link MORE} when some were not done after {@link RETENTION_EVERY_MS}.
 */
export async function removeOldRows(deps: RetentionDeps, signal: AbortSignal): Promise<unknown> {
  const { store, log, retentionDays: days, backlogs } = deps;
  const { general, clock } = store;
  const endMs = clock.nowMs() + RETENTION_EVERY_MS;
  let due: readonly ((pass: RetentionPass) => Promise<unknown>)[] = [
    (pass) => removeOldLeaseRows(general, days, pass),
    (pass) => removeOldFleetRows(general, days, pass),
    (pass) => removeOldWitnesses(general, pass),
    (pass) => removeOldClockJumps(general, pass),
    (pass) => removeOldBulks(general, days, pass),
    (pass) => removeOldBuckets(general, pass),
    (pass) => removeOldRefusals(general, pass, days),
    (pass) => removeRefusals(general, pass),
    (pass) => removeOldPeopleRows(general, pass),
    (pass) => dropOldDeclarations(general, days, pass),
  ];
  do {
    const left: (typeof due)[number][] = [];
    for (const remove of due) {
      const found = { isMore: false };
      await remove({
        clock,
        signal,
        onTurn(kind, isMore) {
          backlogs.note(kind, isMore);
          found.isMore ||= isMore;
        },
        onFailure(kind, error) {
          backlogs.note(kind, true);
          log.warn({ err: error, kind }, 'old rows could not be removed; trying again');
        },
      });
      if (found.isMore) left.push(remove);
    }
    due = left;
  } while (due.length > 0 && !signal.aborted && clock.nowMs() < endMs);
  return due.length > 0 ? MORE : undefined;
}
