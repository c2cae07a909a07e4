/** The service of this slice, and what apps and other slices may use of it. */
import type { Logger } from '@leasehold/service-kit';
import { type AuditEntry, writeAudit } from '../access/index.ts';
import { type Actor, type AuditAction, SYSTEM_ACTOR } from '../kernel/access.ts';
import type { Clock } from '../kernel/clock.ts';
import type { DroneMessage, LogPage, LogRequest } from '../kernel/drones.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller, Count, FilterOf, Page } from '../kernel/face-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import { type KeyService, terminateAllOf } from '../keys/index.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Sql } from '../postgres/sql.ts';
import type {
  BackendDetail,
  BackendStateView,
  BackendView,
  DroneView,
  OfferedProgram,
  OutboxAction,
  RemovedDrone,
} from './fleet-views.ts';
import {
  type BackendListInput,
  countBackends,
  getBackend,
  listBackends,
  type NamespaceLimits,
  readBackendStates,
} from './sql/backends.ts';
import {
  type Heartbeat,
  openSession,
  recordGoodbye,
  recordHeartbeat,
  type SessionRef,
  type SessionRequest,
} from './sql/drone-sessions.ts';
import {
  countListedDrones,
  type DroneListInput,
  getDrone,
  heldLeaseIds,
  listDrones,
  readOfferedPrograms,
  removeDrone,
  setDraining,
  setLost,
} from './sql/drones.ts';
import {
  acknowledgeAction,
  answerQuestion,
  askForLog,
  type Outbox,
  type QuestionAnswer,
  readOutboxes,
} from './sql/outbox.ts';

export type {
  BackendDetail,
  BackendUsage,
  BackendStateView,
  BackendView,
  DroneView,
  RemovedDrone,
  MachineLoad,
  // Named by the types of the API, which the client's package declares.
  OfferedProgram,
  WarmProcesses,
} from './fleet-views.ts';
export {
  type BackendListInput,
  listBackends,
  type NamespaceLimits,
  removeOldFleetRows,
} from './sql/backends.ts';
export {
  chooseDrone,
  countDrones,
  type DroneGroup,
  type DroneListInput,
  droneStatus,
  heartbeatAgeMsMax,
  offerOf,
  readDroneGroups,
} from './sql/drones.ts';

/** Drones and backends. */
export interface FleetService {
  /**
   * Opens a session and yields first its number, then every action for the drone until it is
   * acknowledged. Ends when the signal aborts.
   * @throws {LeaseError} `session.superseded` when a newer session has opened.
   */
  session(request: SessionRequest, signal: AbortSignal): AsyncIterable<DroneMessage>;
  /** @throws {LeaseError} `session.superseded`. */
  heartbeat(heartbeat: Heartbeat): Promise<{ heartbeatMs: number; draining: boolean }>;
  /** The drone stops: it is given nothing more until its next session. @throws {LeaseError} `session.superseded`. */
  goodbye(ref: SessionRef): Promise<void>;
  /** @throws {LeaseError} `session.superseded`. */
  acknowledge(ack: SessionRef & { readonly actionId: string }): Promise<{ acknowledged: boolean }>;
  /** What the drones of this datacenter offer that may take a backend now, full ones too. */
  offeredPrograms(): Promise<OfferedProgram[]>;
  listDrones(input: DroneListInput): Promise<Page<DroneView>>;
  countDrones(input: FilterOf<DroneListInput>): Promise<Count>;
  /** @throws {LeaseError} `drone.not_found`. */
  getDrone(droneId: string): Promise<DroneView>;
  /**
   * Once it has answered, the drone takes no new backend. With `stop` its backends are asked to stop, each with the
   * grace of its program; `stoppingCount` is how many. @throws {LeaseError} `drone.not_found`.
   */
  drain(
    input: DroneAct & { readonly stop?: boolean | undefined },
    actor: Actor,
  ): Promise<{ changed: boolean; backends: BackendView[]; stoppingCount: number }>;
  /** @throws {LeaseError} `drone.not_found`. */
  undrain(input: DroneAct, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Drains the drone and blocks the renewal of its keys, so that they run out. @throws {LeaseError} `drone.not_found`;
   * `request.outcome_unknown` when it drains, and keys may still be renewed: the same act again completes this one;
   * `drone.in_use` when it was undrained, or has connected again, meanwhile: it is not lost.
   */
  markLost(input: DroneAct, actor: Actor): Promise<{ renewalsBlockedCount: number }>;
  /**
   * Forgets a drone that is not connected and runs nothing. Its history stays, and its tokens: a drone of this id may
   * register again, as a new one. @throws {LeaseError} `drone.not_found`, `drone.in_use`.
   */
  remove(input: DroneAct, actor: Actor): Promise<RemovedDrone>;
  listBackends(input: BackendListInput, limits: NamespaceLimits): Promise<Page<BackendView>>;
  countBackends(input: FilterOf<BackendListInput>, limits: NamespaceLimits): Promise<Count>;
  /** @throws {LeaseError} `backend.not_found`. */
  getBackend(backendId: string, limits: NamespaceLimits): Promise<BackendDetail>;
  /**
   * Yields every state that the backend was in, then those that follow; ends after `terminated`.
   * @throws {LeaseError} `backend.not_found`.
   */
  watchBackend(
    backendId: string,
    limits: NamespaceLimits,
    signal: AbortSignal,
  ): AsyncIterable<BackendStateView>;
  /**
   * A part of what a backend has written, from its drone. Waits for output if it is asked to and nothing is there.
   * @param reading.inTurn carries out what the database is asked for in the turn of the caller; the wait is in no turn.
   * @throws {LeaseError} `backend.not_found`, `backend.logs_unavailable`.
   */
  readLog(
    request: LogRequest,
    limits: NamespaceLimits,
    reading: {
      readonly signal: AbortSignal;
      readonly inTurn?: (<T>(read: () => Promise<T>) => Promise<T>) | undefined;
    },
  ): Promise<LogPage>;
  /** What a drone answers to a question. @throws {LeaseError} `session.superseded`. */
  answer(answer: QuestionAnswer): Promise<{ isWanted: boolean }>;
}

/** What an operator asks of a drone. */
export interface DroneAct {
  readonly droneId: string;
  readonly reason?: string | undefined;
}

/** How many statements that block a renewal are sent at once. */
const BLOCKS_IN_FLIGHT_MAX = 20;

interface FleetServiceDeps {
  readonly store: Store;
  readonly keys: KeyService;
  readonly feed: OutboxFeed;
  readonly heartbeatMs: number;
}

/** Drones and backends over the store. */
export function createFleetService(deps: FleetServiceDeps): FleetService {
  const { store, heartbeatMs } = deps;
  return {
    session(request, signal) {
      if (request.datacenter !== store.datacenter) {
        throw new LeaseError(
          'request.invalid',
          `datacenter: this controller is of "${store.datacenter}", the drone of "${request.datacenter}"`,
          { details: { field: 'datacenter' } },
        );
      }
      return droneSession(deps, request, signal);
    },
    async heartbeat(heartbeat) {
      const { draining } = await recordHeartbeat(store.vital, heartbeat);
      return { heartbeatMs, draining };
    },
    goodbye: (ref) => recordGoodbye(store.vital, ref),
    acknowledge: async (ack) => {
      const answer = await acknowledgeAction(store.vital, ack);
      // The next action of the same backend may follow now.
      if (answer.acknowledged) deps.feed.look(ack.droneId);
      return answer;
    },
    offeredPrograms: () =>
      readOfferedPrograms(store.general, { datacenter: store.datacenter, heartbeatMs }),
    listDrones: (input) => listDrones(store.reads, input, heartbeatMs),
    countDrones: (input) => countListedDrones(store.reads, input, heartbeatMs),
    getDrone: (droneId) => getDrone(store.reads, droneId, heartbeatMs),
    async drain(act, actor) {
      const answer = await changeDraining(store, true, act, actor);
      if (answer.stoppingCount > 0) store.hints.notify(`drone:${act.droneId}`);
      return answer;
    },
    async undrain(act, actor) {
      const { changed } = await changeDraining(store, false, act, actor);
      return { changed };
    },
    markLost: (act, actor) => markLost(deps, act, actor),
    remove: (act, actor) =>
      store.general.$transaction(async (tx) => {
        const removed = await removeDrone(tx, act.droneId, heartbeatMs);
        await writeAudit(tx, auditOf('drones.remove', act, actor));
        return removed;
      }),
    listBackends: (input, limits) => listBackends(store.reads, input, limits),
    countBackends: (input, limits) => countBackends(store.reads, input, limits),
    async getBackend(backendId, limits) {
      const backend = await getBackend(store.reads, backendId, limits);
      return { ...backend, states: await readBackendStates(store.reads, backendId, '0') };
    },
    watchBackend: (backendId, limits, signal) => watchBackend(store, backendId, { limits, signal }),
    async readLog(request, limits, { signal, inTurn = (read) => read() }) {
      const { droneId } = await inTurn(() => getBackend(store.reads, request.backendId, limits));
      return askForLog(store, droneId, request, signal);
    },
    answer: (answer) => answerQuestion(store, answer),
  };
}

/** All of them, however many pages that takes: an operator waits until none is left. */
async function liveBackends(sql: Sql<'general'>, droneId: string): Promise<BackendView[]> {
  const backends: BackendView[] = [];
  let cursor: string | undefined;
  do {
    const page = await listBackends(
      sql,
      { droneId, live: true, limit: LIMITS.pageSizeMax, cursor },
      null,
    );
    backends.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return backends;
}

function auditOf(action: AuditAction, act: DroneAct, actor: Actor): AuditEntry {
  return { ...actor, action, resource: `drone:${act.droneId}`, reason: act.reason };
}

async function changeDraining(
  store: Store,
  draining: boolean,
  act: DroneAct & { readonly stop?: boolean | undefined },
  actor: Actor,
) {
  return store.general.$transaction(async (tx) => {
    const { changed } = await setDraining(tx, act.droneId, draining);
    const stoppingIds = act.stop === true ? await terminateAllOf(tx, act.droneId) : [];
    // Not after the commit: if it failed then, the caller would learn that nothing was changed.
    const backends = draining ? await liveBackends(tx, act.droneId) : [];
    await writeAudit(tx, {
      ...auditOf(draining ? 'drones.drain' : 'drones.undrain', act, actor),
      ...(act.stop === true && { detail: { stoppingCount: stoppingIds.length } }),
    });
    return { changed, backends, stoppingCount: stoppingIds.length };
  });
}

/**
 * Every key of the drone runs out, because its renewal is blocked; none is given away before. Until all are blocked the
 * drone drains, and is not lost: an act that was broken off can be seen, and is offered again.
 */
async function markLost({ store, keys }: FleetServiceDeps, act: DroneAct, actor: Actor) {
  const { droneId } = act;
  const { session, leaseIds } = await store.general.$transaction(async (tx) => {
    const drained = await setDraining(tx, droneId, true);
    await writeAudit(tx, auditOf('drones.markLost', act, actor));
    return { session: drained.session, leaseIds: await heldLeaseIds(tx, droneId) };
  });
  let renewalsBlockedCount: number;
  let isLost: boolean;
  try {
    renewalsBlockedCount = await blockRenewals(keys, leaseIds, act, actor);
    isLost = await setLost(store.general, droneId, session);
  } catch (cause) {
    const message = `The drone ${droneId} takes no new backends, but some of its keys may still be renewed. Mark it lost again.`;
    throw new LeaseError('request.outcome_unknown', message, { details: { droneId }, cause });
  }
  if (!isLost) {
    const message = `The drone ${droneId} was undrained, or has connected again, meanwhile: it is not lost, but ${String(leaseIds.length)} of its keys are not renewed any more.`;
    throw new LeaseError('drone.in_use', message, { details: { droneId } });
  }
  return { renewalsBlockedCount };
}

/** @returns the renewal of how many was not blocked already. When it throws, no statement of it is under way. */
async function blockRenewals(
  keys: KeyService,
  leaseIds: readonly string[],
  act: DroneAct,
  actor: Actor,
): Promise<number> {
  const caller: Caller = {
    principal: SYSTEM_ACTOR,
    actor: actor.actor,
    role: actor.role,
    namespaces: null,
  };
  const reason = act.reason ?? `drone ${act.droneId} was marked lost`;
  let blockedCount = 0;
  for (let from = 0; from < leaseIds.length; from += BLOCKS_IN_FLIGHT_MAX) {
    const group = leaseIds.slice(from, from + BLOCKS_IN_FLIGHT_MAX);
    const changes = await Promise.allSettled(
      group.map((leaseId) => keys.blockRenewal({ leaseId, reason }, caller)),
    );
    for (const change of changes) {
      if (change.status === 'rejected') throw change.reason;
      if (change.value.changed) blockedCount += 1;
    }
  }
  return blockedCount;
}

/** How long a state goes unnoticed when its hint is lost. */
const POLL_MS = 1_000;

/**
 * Yields every state that a backend was in, then those that follow; ends after `terminated`, or
 * when the signal aborts. @throws {LeaseError} `backend.not_found`.
 */
async function* watchBackend(
  store: Pick<Store, 'reads' | 'hints' | 'clock'>,
  backendId: string,
  reader: { readonly limits: NamespaceLimits; readonly signal: AbortSignal },
): AsyncGenerator<BackendStateView> {
  await getBackend(store.reads, backendId, reader.limits);
  let afterId = '0';
  while (!reader.signal.aborted) {
    // Waiting begins before the look, so that no hint in between is missed.
    const changed = store.hints.next(
      `backend:${backendId}`,
      store.clock.nowMs() + POLL_MS,
      reader.signal,
    );
    for (const state of await readBackendStates(store.reads, backendId, afterId)) {
      yield state;
      afterId = state.id;
      if (state.status === 'terminated') return;
    }
    await changed;
  }
}

/** An action that is not acknowledged is sent again after this. */
const RESEND_MS = 1_000;

interface DroneSessionDeps {
  readonly store: Pick<Store, 'vital' | 'hints' | 'clock'>;
  readonly feed: OutboxFeed;
  readonly heartbeatMs: number;
}

/**
 * One session of a drone, from its number to its end. Yields the number first, then each action of
 * the outbox, again every second until it is acknowledged; the drone acts on each at most once. Questions are
 * sent once.
 *
 * @throws {LeaseError} `session.superseded` when a newer session of the drone has opened, here or
 * on another controller.
 */
async function* droneSession(
  deps: DroneSessionDeps,
  request: SessionRequest,
  signal: AbortSignal,
): AsyncGenerator<DroneMessage> {
  const session = await openSession(deps.store.vital, request);
  // An older session of the drone, wherever it is, learns of this one now.
  deps.store.hints.notify(`drone:${request.droneId}`);
  yield { kind: 'session', session, heartbeatMs: deps.heartbeatMs };
  const resends = createResends(deps.store.clock);
  let asked = new Set<string>();
  const inbox = openInbox(deps.feed, request.droneId, signal);
  try {
    for (;;) {
      const outbox = await inbox.next();
      if (outbox === undefined) return;
      if (outbox.session > session) throw new LeaseError('session.superseded');
      for (const action of resends.dueOf(outbox.actions)) yield messageOf(action, session);
      const fresh = outbox.questions.filter(({ questionId }) => !asked.has(questionId));
      asked = new Set(outbox.questions.map(({ questionId }) => questionId));
      for (const question of fresh) yield { kind: 'read_log', session, ...question };
    }
  } finally {
    inbox.close();
  }
}

/** The payload was written by connect or terminate; the session adds what only it knows. */
function messageOf(action: OutboxAction, session: number): DroneMessage {
  return { ...action.payload, actionId: action.actionId, session } as unknown as DroneMessage;
}

/** Keeps the newest outbox only: a slow reader skips readings and does not fall behind. */
function openInbox(feed: OutboxFeed, droneId: string, signal: AbortSignal) {
  let newest: Outbox | undefined;
  let wake: (() => void) | undefined;
  const onAbort = (): void => wake?.();
  const unfollow = feed.follow(droneId, (outbox) => {
    newest = outbox;
    wake?.();
  });
  signal.addEventListener('abort', onAbort);
  return {
    /** The newest outbox that was not seen yet; undefined once the session is over. */
    async next(): Promise<Outbox | undefined> {
      while (newest === undefined && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const outbox = signal.aborted ? undefined : newest;
      newest = undefined;
      return outbox;
    },
    close(): void {
      unfollow();
      signal.removeEventListener('abort', onAbort);
    },
  };
}

function createResends(clock: Clock) {
  let sentAtMs = new Map<string, number>();
  return {
    dueOf(actions: readonly OutboxAction[]): OutboxAction[] {
      const nowMs = clock.nowMs();
      const isDue = ({ actionId }: OutboxAction): boolean =>
        nowMs - (sentAtMs.get(actionId) ?? -Infinity) >= RESEND_MS;
      const due = actions.filter(isDue);
      // What is no longer in the outbox is forgotten.
      sentAtMs = new Map(
        actions.map((action) => [
          action.actionId,
          isDue(action) ? nowMs : (sentAtMs.get(action.actionId) ?? nowMs),
        ]),
      );
      return due;
    },
  };
}

// Reads the outboxes of the drones whose sessions this controller carries: at a hint the one drone
// that it names, and once every `OUTBOX_POLL_MS` all of them, because a hint may be lost: one
// statement for each `DRONES_PER_STATEMENT_MAX` drones.

/** How long an action or a newer session goes unnoticed when its hint is lost. */
const OUTBOX_POLL_MS = 1_000;
const DRONES_PER_STATEMENT_MAX = 500;

export interface OutboxFeed {
  /**
   * Calls `fn` with the drone's outbox, soon and then whenever it may have changed.
   * @returns a function that ends it.
   */
  follow(droneId: string, fn: (outbox: Outbox) => void): () => void;
  /** Looks at once whether something is to be sent to the drone. */
  look(droneId: string): void;
  /** How many drones are followed. */
  readonly droneCount: number;
  close(): void;
}

type Follower = (outbox: Outbox) => void;

export function createOutboxFeed(
  store: Pick<Store, 'vital' | 'hints' | 'clock'>,
  log: Logger,
): OutboxFeed {
  const followers = new Map<string, Set<Follower>>();
  const wanted = new Set<string>();
  let isReading = false;

  function want(droneIds: Iterable<string>): void {
    for (const droneId of droneIds) wanted.add(droneId);
    void read();
  }

  async function read(): Promise<void> {
    if (isReading) return;
    isReading = true;
    try {
      while (wanted.size > 0) {
        const droneIds = [...wanted].slice(0, DRONES_PER_STATEMENT_MAX);
        for (const droneId of droneIds) wanted.delete(droneId);
        for (const outbox of await readOutboxes(store.vital, droneIds)) {
          for (const fn of followers.get(outbox.droneId) ?? []) fn(outbox);
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'outboxes could not be read; trying again');
    } finally {
      isReading = false;
    }
  }

  function pollLater(): () => void {
    return store.clock.at(store.clock.nowMs() + OUTBOX_POLL_MS, () => {
      want(followers.keys());
      stopPolling = pollLater();
    });
  }
  let stopPolling = pollLater();

  return {
    follow(droneId, fn) {
      const fns = followers.get(droneId) ?? new Set();
      fns.add(fn);
      followers.set(droneId, fns);
      const off = store.hints.on(`drone:${droneId}`, () => want([droneId]));
      want([droneId]);
      return () => {
        off();
        fns.delete(fn);
        if (fns.size === 0 && followers.get(droneId) === fns) followers.delete(droneId);
      };
    },
    look(droneId) {
      if (followers.has(droneId)) want([droneId]);
    },
    get droneCount() {
      return followers.size;
    },
    close() {
      stopPolling();
    },
  };
}
