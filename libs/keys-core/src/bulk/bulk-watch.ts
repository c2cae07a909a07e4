import type { Page, PageInput } from '../kernel/face-types.ts';
import { idFrom, pageOf } from '../postgres/paging.ts';
import { isoDates } from '../postgres/sql.ts';
import type { BulkItemView, BulkProgress } from './bulk-types.ts';
import { LeaseError } from '../kernel/errors.ts';
import { readBulk, readItems, type BulkState } from './sql/bulk-requests.ts';
import type { Store } from '../postgres/open-store.ts';
import { pause } from '../postgres/kernel-store.ts';
import { bulkTopic } from './bulk-runner.ts';

/** How long progress goes unnoticed when its hint is lost. */
const POLL_MS = 1_000;
/** The shortest time between two reads: a page of a busy bulk action takes less. */
const PAUSE_MS = 100;

type Reading = Pick<Store, 'reads' | 'hints' | 'clock'>;

/** @throws {LeaseError} `bulk.not_found`. */
export async function readProgress(
  store: Pick<Store, 'reads'>,
  bulkId: string,
): Promise<BulkProgress> {
  return progressOf(await look(store, bulkId));
}

/** @throws {LeaseError} `bulk.not_found`; `request.invalid` for a foreign cursor. */
export async function itemPage(
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
export async function* watchProgress(
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
