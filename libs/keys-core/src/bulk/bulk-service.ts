import { readPreview } from './sql/bulk-holders.ts';
import type { BulkService } from './bulk-types.ts';
import { assertNoHoldOff } from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import { abortBulk, startBulk } from './sql/bulk-requests.ts';
import {
  bulkStopTopic,
  bulkTopic,
  createBulkRunner,
  type BulkRunner,
  type BulkRunnerDeps,
} from './bulk-runner.ts';
import { itemPage, readProgress, watchProgress } from './bulk-watch.ts';

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
        ...{ bulkId: store.ids.uuid(), action, reason, source },
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
