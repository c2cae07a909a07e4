/**
 * Carries out bulk actions, page by page.
 *
 * A controller has a bulk action while it renews its claim with every page. Then: read what is open, act on
 * it, a few at a time; record what became of it; tell the watchers. It ends when nothing is open,
 * when somebody aborts it, or when the controller stops, which lets another one go on at once. A
 * controller that dies is found dead by the claim it does not prolong, and any other goes on with what
 * is open.
 */
import {
  claimBulk,
  finishBulk,
  releaseBulkClaim,
  prolongBulk,
  readOpenItems,
  recordItems,
  type ItemOutcome,
  type OpenItem,
} from './sql/bulk-runs.ts';
import type { BulkOrder } from './sql/bulk-requests.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Logger } from '@leasehold/service-kit';
import { actOn, type BulkFaces, type LookAgain } from './bulk-act.ts';
import { Semaphore } from './semaphore.ts';

const ITEMS_PER_PAGE_MAX = 50;
/** After this no further act of a page is begun: a claim lasts 15 s, and an act 9 s at the worst. */
const PAGE_MS_MAX = 3_000;
/** Of one bulk action. */
const LANES = 4;
/** Of one controller: fewer than it has connections, so that other calls find one. */
const ACTS_AT_ONCE_MAX = 6;

/** Said when a bulk action waits for a controller. */
const OPEN_TOPIC = 'bulk-open';

/** Said whenever a bulk action has come further. */
export function bulkTopic(bulkId: string): string {
  return `bulk:${bulkId}`;
}

/** Said when a bulk action is to stop. */
export function bulkStopTopic(bulkId: string): string {
  return `bulk-stop:${bulkId}`;
}

export interface BulkRunnerDeps extends BulkFaces {
  readonly store: Store;
  readonly log: Logger;
}

export interface BulkRunner {
  /** Names this controller's claims. */
  readonly id: string;
  /** Carries out a bulk action that was claimed under {@link id}. */
  run(order: BulkOrder): void;
  /** Takes over whatever nobody carries out. Runs now and then, and at a hint. */
  runOnce(): Promise<void>;
  /** Stops after the acts under way, and lets others go on. */
  close(): Promise<void>;
}

export function createBulkRunner(deps: BulkRunnerDeps): BulkRunner {
  return new Runner(deps);
}

interface Run {
  readonly order: BulkOrder;
  isStopping: boolean;
  ended: Promise<void>;
}

class Runner implements BulkRunner {
  readonly id: string;
  readonly #deps: BulkRunnerDeps;
  readonly #semaphore = new Semaphore(ACTS_AT_ONCE_MAX);
  readonly #runs = new Map<string, Run>();
  readonly #closeHint: () => void;
  #isClosed = false;

  constructor(deps: BulkRunnerDeps) {
    this.#deps = deps;
    this.id = deps.store.ids.uuid();
    this.#closeHint = deps.store.hints.on(OPEN_TOPIC, () => {
      this.runOnce().catch((error: unknown) => {
        deps.log.warn({ err: error }, 'bulk actions could not be looked for; trying again');
      });
    });
  }

  run(order: BulkOrder): void {
    const run: Run = { order, isStopping: this.#isClosed, ended: Promise.resolve() };
    this.#runs.set(order.bulkId, run);
    run.ended = this.#carryOut(run);
  }

  async runOnce(): Promise<void> {
    while (!this.#isClosed) {
      const order = await claimBulk(this.#deps.store.prisma, this.id, [...this.#runs.keys()]);
      if (order === undefined) return;
      if (!this.#runs.has(order.bulkId)) this.run(order);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closeHint();
    const runs = [...this.#runs.values()];
    for (const run of runs) run.isStopping = true;
    await Promise.all(runs.map((run) => run.ended));
  }

  async #carryOut(run: Run): Promise<void> {
    const { store, log } = this.#deps;
    const { bulkId } = run.order;
    const closeHint = store.hints.on(bulkStopTopic(bulkId), () => {
      run.isStopping = true;
    });
    try {
      while (!run.isStopping && (await prolongBulk(store.prisma, bulkId, this.id))) {
        if (!(await this.#page(run))) break;
      }
    } catch (error) {
      log.warn({ err: error, bulkId }, 'a bulk action was interrupted; it continues from there');
    } finally {
      closeHint();
      await this.#releaseClaim(bulkId);
      this.#runs.delete(bulkId);
    }
  }

  /** @returns false when nothing was open any more. */
  async #page(run: Run): Promise<boolean> {
    const { store } = this.#deps;
    const { order } = run;
    const from = { place: 0, limit: ITEMS_PER_PAGE_MAX };
    const items = await readOpenItems(store.prisma, order, from);
    if (items.length === 0) {
      await finishBulk(store.prisma, order.bulkId);
      return false;
    }
    const { outcomes, failure } = await this.#act(run, items);
    if (outcomes.length > 0) await recordItems(store.prisma, order.bulkId, outcomes);
    store.hints.notify(bulkTopic(order.bulkId));
    if (failure !== undefined) throw failure;
    return true;
  }

  /** What was done is answered, whatever went wrong after it. */
  async #act(
    run: Run,
    items: readonly OpenItem[],
  ): Promise<{ outcomes: ItemOutcome[]; failure: Error | undefined }> {
    const { store, log } = this.#deps;
    const { order } = run;
    const outcomes: ItemOutcome[] = [];
    const left = [...items];
    const endAtMs = store.clock.nowMs() + PAGE_MS_MAX;
    let failure: Error | undefined;
    const lookAgain: LookAgain = async (place) =>
      (await readOpenItems(store.prisma, order, { place, limit: 1 }))[0];
    const next = (): OpenItem | undefined => {
      const isOver = run.isStopping || failure !== undefined || store.clock.nowMs() >= endAtMs;
      return isOver ? undefined : left.shift();
    };
    const lane = async (): Promise<void> => {
      for (let item = next(); item !== undefined; item = next()) {
        const one = { order, item, lookAgain };
        const outcome = await this.#semaphore.run(() => actOn(this.#deps, one));
        outcomes.push(outcome);
        if (outcome.failure !== undefined) {
          const { bulkId } = order;
          log.warn({ err: outcome.failure, bulkId, leaseId: item.leaseId }, 'a bulk item failed');
        }
      }
    };
    const lanes = Array.from({ length: LANES }, () =>
      lane().catch((error: unknown) => {
        failure = error instanceof Error ? error : new Error(String(error));
      }),
    );
    await Promise.all(lanes);
    return { outcomes, failure };
  }

  async #releaseClaim(bulkId: string): Promise<void> {
    const { store, log } = this.#deps;
    try {
      await releaseBulkClaim(store.prisma, bulkId, this.id);
      store.hints.notify(bulkTopic(bulkId));
      if (this.#isClosed) store.hints.notify(OPEN_TOPIC);
    } catch (error) {
      log.warn({ err: error, bulkId }, 'a bulk action could not be released; its claim expires');
    }
  }
}
