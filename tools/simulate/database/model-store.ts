import { SILENT_OBSERVER } from '../../../libs/keys-core/src/postgres/kernel-store.ts';
import type { Store } from '../../../libs/keys-core/src/postgres/open-store.ts';
import type { Pool } from '../../../libs/keys-core/src/postgres/pool.ts';

/** What the worlds give the product of a store. */
export type ModelStoreParts = Pick<
  Store,
  'datacenter' | 'clock' | 'clockWatch' | 'hints' | 'ids'
> & {
  readonly pool: Pool<never>;
};

const STATEMENT_TIMEOUT_MS = 2_000;
/** The database of a model is never restored. */
const MARK = { witnessId: '', beat: 0, at: 0, run: '1', position: '0/0' };

/** A store whose pools all send their statements to one model. */
export function createModelStore({ pool, ...parts }: ModelStoreParts): Store {
  return {
    ...parts,
    general: withoutRecords(pool),
    ...{ transitions: pool, renewals: pool, vital: pool },
    ...{ slowLane: pool, reads: pool, guests: pool },
    guestDatabase: { transaction: unused },
    observer: SILENT_OBSERVER,
    witness: {
      mark: MARK,
      fencingToken: '0',
      ready: () => Promise.resolve(),
      look: () => Promise.resolve(),
      consider: () => Promise.resolve(),
      saw: () => undefined,
      stamp: () => undefined,
    },
    longestTtl: { ms: Infinity, note: () => Promise.resolve() },
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    reserve: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

/** The general pool: no model has records. */
function withoutRecords(pool: Pool<never>): Store['general'] {
  return {
    $queryRaw: (query, ...values) => pool.$queryRaw(query, ...values),
    $executeRaw: unused,
    on: unused,
    reserve: () => Promise.resolve(),
    close: () => Promise.resolve(),
    $transaction: (work) =>
      pool.$transaction((tx) =>
        work({
          ...tx,
          get records() {
            return unused();
          },
        }),
      ),
    get connections() {
      return unused();
    },
    get records() {
      return unused();
    },
  };
}

/** For a part that no model has. */
export function unused(): never {
  throw new Error('the model of a store has no such part');
}
