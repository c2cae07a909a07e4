/** The service of this slice, and what apps and other slices may use of it. */
import { assertNoHoldOff } from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Page, PageInput } from '../kernel/face-types.ts';
import { pause } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { idFrom, pageOf } from '../postgres/paging.ts';
import { isoDates } from '../postgres/sql.ts';
import {
  type BulkRunner,
  type BulkRunnerDeps,
  bulkStopTopic,
  bulkTopic,
  createBulkRunner,
} from './bulk-runner.ts';
import type { BulkItemView, BulkProgress, BulkService } from './bulk-types.ts';
import { abortBulk, type BulkState, readBulk, readItems, readPreview, startBulk } from './sql.ts';

export { removeOldBulks } from './sql.ts';
export type { BulkRunner } from './bulk-runner.ts';
export type {
  BulkFailure,
  BulkItemView,
  BulkPreview,
  BulkProgress,
  BulkRequest,
  BulkService,
} from './bulk-types.ts';

/** Bulk actions of a controller: the service that takes requests, and the runner that carries them out. */
export interface Bulk {
  readonly service: BulkService;
  readonly runner: BulkRunner;
}

/** Records requests and carries them out; see `bulk-runner.ts`. */
export function createBulk(deps: BulkRunnerDeps): Bulk {
  const { store } = deps;
  const runner = createBulkRunner(deps);
  const service: BulkService = {
    preview: (items) => readPreview(store.reads, items),
    async start({ action, mode, reason, items }, caller, { source }) {
      const order = {
        ...caller,
        bulkId: store.ids.uuid(),
        action,
        reason,
        source,
        mode: action === 'revoke' ? (mode ?? 'graceful') : null,
      };
      // No controller could get the lease of this bulk action before the end of the hold-off.
      await assertNoHoldOff(store, store.general);
      const isStarted = await startBulk(store.general, { ...order, items });
      if (!isStarted) throw new LeaseError('bulk.busy');
      runner.run(order);
      return { bulkId: order.bulkId };
    },
    async abort(bulkId, actor) {
      const changed = await abortBulk(store.general, bulkId, actor);
      if (changed === undefined) throw new LeaseError('bulk.not_found');
      if (changed) {
        store.hints.notify(bulkStopTopic(bulkId));
        store.hints.notify(bulkTopic(bulkId));
      }
      return { changed };
    },
    items: (input) => itemPage(store, input),
    get: (bulkId) => readProgress(store, bulkId),
    watch: (bulkId, signal) => watchProgress(store, bulkId, signal),
  };
  return { service, runner };
}

/** How long progress goes unnoticed when its hint is lost. */
const POLL_MS = 1_000;
/** The shortest time between two reads: a page of a busy bulk action takes less. */
const PAUSE_MS = 100;

type Reading = Pick<Store, 'reads' | 'hints' | 'clock'>;

/** @throws {LeaseError} `bulk.not_found`. */
async function readProgress(store: Pick<Store, 'reads'>, bulkId: string): Promise<BulkProgress> {
  return progressOf(await look(store, bulkId));
}

/** @throws {LeaseError} `bulk.not_found`; `request.invalid` for a foreign cursor. */
async function itemPage(
  { reads }: Pick<Store, 'reads'>,
  { bulkId, cursor, limit }: { readonly bulkId: string } & PageInput,
): Promise<Page<BulkItemView>> {
  const rows = await readItems(reads, bulkId, { afterPlace: idFrom(cursor), limit: limit + 1 });
  if (rows.length === 0) await look({ reads }, bulkId);
  return pageOf(
    rows.map((row) => isoDates(row)),
    limit,
    ({ place }) => [String(place)],
  );
}

async function look(store: Pick<Store, 'reads'>, bulkId: string): Promise<BulkState> {
  const state = await readBulk(store.reads, bulkId);
  if (state === undefined) throw new LeaseError('bulk.not_found');
  return state;
}

/**
 * Yields the progress now and whenever it has changed; ends once the bulk action is over and none of
 * its acts is under way, or when the signal aborts. @throws {LeaseError} `bulk.not_found`.
 */
async function* watchProgress(
  store: Reading,
  bulkId: string,
  signal: AbortSignal,
): AsyncGenerator<BulkProgress> {
  let told: string | undefined;
  while (!signal.aborted) {
    // Waiting begins before the read, so that no hint in between is missed.
    const changed = store.hints.next(bulkTopic(bulkId), store.clock.nowMs() + POLL_MS, signal);
    const state = await look(store, bulkId);
    const progress = progressOf(state);
    const isOver = (state.state === 'done' || state.state === 'aborted') && !state.isAtWork;
    const said = [state.state, state.done, state.failedCount].join();
    if (said !== told) yield progress;
    told = said;
    if (isOver) return;
    await changed;
    await pause(store, PAUSE_MS, signal);
  }
}

function progressOf({ isAtWork: _isAtWork, ...progress }: BulkState): BulkProgress {
  return progress;
}
