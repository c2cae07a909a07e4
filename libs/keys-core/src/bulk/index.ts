/** The service of this slice, and what apps and other slices may use of it. */
import type { Logger } from '@leasehold/service-kit';
import { assertNoHoldOff } from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Page, PageInput } from '../kernel/face-types.ts';
import type { Resource } from '../kernel/resource.ts';
import type { KeyService } from '../keys/index.ts';
import type { WhileLeader } from '../leases/index.ts';
import { pause } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { idFrom, pageOf } from '../postgres/paging.ts';
import { isoDates } from '../postgres/sql.ts';
import type { BulkItemView, BulkProgress, BulkService } from './bulk-types.ts';
import {
  abortBulk,
  bulkLeaseName,
  type BulkOrder,
  type BulkState,
  finishBulk,
  type ItemOutcome,
  mayGoOn,
  type OpenItem,
  readBulk,
  readItems,
  readOpenBulks,
  readOpenItems,
  readPreview,
  recordItems,
  startBulk,
} from './sql.ts';

export { removeOldBulks } from './sql.ts';
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

/** Records requests and carries them out. */
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

/**
 * Carries out bulk actions, page by page.
 *
 * A controller has the lease of each bulk action that it carries out. It reads the open items, acts on a
 * few at a time, records the outcomes and notifies the watchers. It ends when no item is open, when
 * somebody aborts the bulk action, when the lease is lost, or when the controller stops, so that another
 * one continues at once. When a controller dies, another one continues as soon as the lease has expired.
 */
const ITEMS_PER_PAGE_MAX = 50;
/** After this a page begins no further act, so that its starter is checked and progress recorded again. */
const PAGE_MS_MAX = 3_000;
/** How many acts of one bulk action run at once. */
const LANES = 4;
/** How many acts run at once on one controller: fewer than its connections, so that other calls find one. */
const ACTS_AT_ONCE_MAX = 6;

/** Notified when a bulk action waits for a controller. */
const OPEN_TOPIC = 'bulk-open';

/** Notified whenever a bulk action has made progress. */
function bulkTopic(bulkId: string): string {
  return `bulk:${bulkId}`;
}

/** Notified when a bulk action is to stop. */
function bulkStopTopic(bulkId: string): string {
  return `bulk-stop:${bulkId}`;
}

interface BulkRunnerDeps extends BulkFaces {
  readonly store: Store;
  readonly whileLeader: WhileLeader;
  readonly log: Logger;
}

export interface BulkRunner {
  /** Carries out a bulk action, unless another controller does. */
  run(order: BulkOrder): void;
  /** Carries out the bulk actions that no controller carries out. Runs periodically, and on a hint. */
  runOnce(): Promise<void>;
  /** Stops after the acts under way, and lets other controllers continue. */
  close(): Promise<void>;
}

function createBulkRunner(deps: BulkRunnerDeps): BulkRunner {
  return new Runner(deps);
}

interface Run {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

class Runner implements BulkRunner {
  readonly #deps: BulkRunnerDeps;
  readonly #semaphore = new Semaphore(ACTS_AT_ONCE_MAX);
  readonly #runs = new Map<string, Run>();
  readonly #closeHint: () => void;
  #isClosed = false;

  constructor(deps: BulkRunnerDeps) {
    this.#deps = deps;
    this.#closeHint = deps.store.hints.on(OPEN_TOPIC, () => {
      this.runOnce().catch((error: unknown) =>
        deps.log.warn({ err: error }, 'bulk actions could not be read; trying again'),
      );
    });
  }

  run(order: BulkOrder): void {
    if (this.#isClosed || this.#runs.has(order.bulkId)) return;
    const stop = new AbortController();
    this.#runs.set(order.bulkId, { stop, ended: this.#carryOut(order, stop) });
  }

  async runOnce(): Promise<void> {
    for (const order of await readOpenBulks(this.#deps.store.general)) this.run(order);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closeHint();
    const runs = [...this.#runs.values()];
    for (const { stop } of runs) stop.abort();
    await Promise.all(runs.map(({ ended }) => ended));
    if (runs.length > 0) this.#deps.store.hints.notify(OPEN_TOPIC);
  }

  async #carryOut(order: BulkOrder, stop: AbortController): Promise<void> {
    const { store, log, whileLeader } = this.#deps;
    const { bulkId } = order;
    const closeHint = store.hints.on(bulkStopTopic(bulkId), () => stop.abort());
    try {
      await whileLeader(bulkLeaseName(bulkId), (on) => this.#pages(order, on), stop.signal);
    } catch (error) {
      // During a hold-off no controller gets the lease; a later run tries again.
      const isHeldOff = error instanceof LeaseError && error.code === 'grant.hold_off';
      if (!isHeldOff) {
        log.warn({ err: error, bulkId }, 'a bulk action was interrupted; it continues from there');
      }
    } finally {
      closeHint();
      this.#runs.delete(bulkId);
      store.hints.notify(bulkTopic(bulkId));
    }
  }

  async #pages(order: BulkOrder, signal: AbortSignal): Promise<void> {
    const { general } = this.#deps.store;
    while (!signal.aborted && (await mayGoOn(general, order.bulkId))) {
      if (!(await this.#page(order, signal))) return;
    }
  }

  /** @returns false when no item was open any more. */
  async #page(order: BulkOrder, signal: AbortSignal): Promise<boolean> {
    const { store } = this.#deps;
    const from = { place: 0, limit: ITEMS_PER_PAGE_MAX };
    const items = await readOpenItems(store.general, order, from);
    if (items.length === 0) {
      await finishBulk(store.general, order.bulkId);
      return false;
    }
    const { outcomes, failure } = await this.#act(order, items, signal);
    if (outcomes.length > 0) await recordItems(store.general, order.bulkId, outcomes);
    store.hints.notify(bulkTopic(order.bulkId));
    if (failure !== undefined) throw failure;
    return true;
  }

  /** Returns the outcomes even when a later act failed. */
  async #act(order: BulkOrder, items: readonly OpenItem[], signal: AbortSignal) {
    const { store, log } = this.#deps;
    const outcomes: ItemOutcome[] = [];
    const left = [...items];
    const endAtMs = store.clock.nowMs() + PAGE_MS_MAX;
    let failure: Error | undefined;
    const lookAgain: LookAgain = async (place) =>
      (await readOpenItems(store.general, order, { place, limit: 1 }))[0];
    const next = (): OpenItem | undefined => {
      const isOver = signal.aborted || failure !== undefined || store.clock.nowMs() >= endAtMs;
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
}

/** Runs a limited number of tasks at once; the others wait for their turn. */
class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnceMax: number) {
    this.#free = atOnceMax;
  }

  /** Runs the task in its turn: first come, first served. */
  async run<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = this.#waiting.shift();
      // The place is passed on directly, so that no newcomer can take it.
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** Carries out the acts on grants of one face. */
type BulkTarget = Pick<KeyService, 'revoke' | 'blockRenewal' | 'allowRenewal'>;

/** What bulk actions act through: one target for each face. */
interface BulkFaces {
  readonly keys: BulkTarget;
  readonly leases: BulkTarget;
  readonly environments: BulkTarget;
  /** The registry's code for an error that an act threw. */
  readonly codeOf: (error: unknown) => string;
}

/** The code for a grant that has ended, by any cause, or never existed. */
const GONE = 'gone';

/** The outcome of an act: done, or why not. */
type Act = Pick<ItemOutcome, 'code'>;

const DONE: Act = { code: null };

/**
 * The item could not be carried out, through no fault of its own: the database is unreachable. It stays
 * open and is retried.
 */
class StoreGone extends Error {
  override readonly name = 'StoreGone';
}

/** Reads one item again. */
type LookAgain = (place: number) => Promise<OpenItem | undefined>;

interface OneItem {
  readonly order: BulkOrder;
  readonly item: OpenItem;
  readonly lookAgain: LookAgain;
}

/**
 * Carries out one item as its face would for a single grant. An error fails this item alone.
 * @throws {StoreGone}.
 */
async function actOn(
  faces: BulkFaces,
  one: OneItem,
): Promise<ItemOutcome & { readonly failure?: unknown }> {
  const { place } = one.item;
  try {
    return { place, ...(await act(faces, one)) };
  } catch (error) {
    const code = faces.codeOf(error);
    if (code === 'store.unavailable' || code === 'request.outcome_unknown') {
      throw new StoreGone('the database is not there', { cause: error });
    }
    return { place, code, failure: error };
  }
}

async function act(faces: BulkFaces, one: OneItem): Promise<Act> {
  const { order, item, lookAgain } = one;
  const { resource, leaseId } = item;
  // This bulk action did it already, but its controller died before it could record that.
  if (item.isActedOn) return DONE;
  if (resource === null || !item.isInForce) return { code: GONE };
  if (order.action !== 'revoke') return changeRenewal(faces, resource, one);
  const { outcome } = await faceOf(faces, resource).revoke(
    { leaseId, mode: order.mode ?? 'graceful', reason: order.reason, abandon: false },
    order,
  );
  if (outcome !== 'gone') return DONE;
  // The controller that had this bulk action before may have acted after it had lost the lease.
  const isActedOn = (await lookAgain(item.place))?.isActedOn === true;
  return isActedOn ? DONE : { code: GONE };
}

/** Blocks or allows renewal. A grant that is already so counts as done and unchanged. */
async function changeRenewal(
  faces: BulkFaces,
  resource: Resource,
  { order, item, lookAgain }: OneItem,
): Promise<Act> {
  if (resource.face === 'environment') return { code: 'bulk.unsupported' };
  const isWanted = order.action === 'allowRenewal';
  const act = isWanted ? 'allowRenewal' : 'blockRenewal';
  const input = { leaseId: item.leaseId, reason: order.reason };
  const { changed } = await faceOf(faces, resource)[act](input, order);
  if (changed) return DONE;
  const now = item.isRenewable === isWanted ? item : await lookAgain(item.place);
  if (now?.isActedOn === true) return DONE;
  const isSoAlready = now?.isInForce === true && now.isRenewable === isWanted;
  return { code: isSoAlready ? null : GONE };
}

/** The target for the grant's face: the other faces do not find its lease id. */
function faceOf(faces: BulkFaces, { face }: Resource): BulkTarget {
  switch (face) {
    case 'key':
      return faces.keys;
    case 'lease':
      return faces.leases;
    case 'environment':
      return faces.environments;
  }
}
