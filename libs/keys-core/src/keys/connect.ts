/**
 * `connect`: the one running backend of a key, or a new one.
 *
 * Read, decide, act, and start over whenever acting changed nothing:
 *
 * 1. Read the key, its backend, its drone's liveness, and whether the request came before, in one statement.
 * 2. {@link decideConnect} says: return it, refuse, wait, or spawn.
 * 3. *Wait*: hold a ticket, wait for a hint that the key was freed, or half a second, or the key's
 *    own end, and read again until `waitMs` is over.
 * 4. *Spawn*: choose a drone, then one transaction grants, records the backend and queues the
 *    action. If another caller was granted the key meanwhile, start over: its backend is the answer.
 *
 * N concurrent connects for one key end in one spawn because only the grant statement decides; the
 * others of one process wait for the first attempt instead of competing with it. If it fails, which may be due to
 * what it asked for, a few at a time make attempts of their own.
 */
import { createTickets, type Tickets } from '../grants/index.ts';
import { assertNever, invariant, LeaseError } from '../kernel/errors.ts';
import type { BackendStatus } from '../kernel/backends.ts';
import { RequestsInProgress } from '../kernel/requests.ts';
import { datacenterOf } from '../kernel/reservation.ts';
import { keyTopic } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import {
  answeredBefore,
  type ConnectAnswers,
  connectOnceFor,
  crashLoopOf,
  createConnectAnswers,
  keyedConnect,
  refuseOnce,
  waitUntilReady,
} from './connect-answers.ts';
import {
  type ConnectDecision,
  decideConnect,
  grantStatusOf,
  type KeyState,
} from './decide-connect.ts';
import type { ConnectResult, KeyService, NamedConnect } from './key-types.ts';
import { createToucher } from './sql/idle-stop.ts';
import { createKeyStateReader, type FoundKey, type KeyStateRow } from './sql/key-state.ts';
import { type ConnectDeps, NotAtHome, startBackend, type Wanted } from './start-backend.ts';

/** How often a waiting connect reads the key when no hint comes. */
const LOOK_INTERVAL_MS = 500;
/**
 * How soon a connect whose spawn was granted nothing looks again: soon at first, because the winner
 * of the race is about to commit; then later each time, up to {@link LOOK_INTERVAL_MS}.
 */
const LOOK_AGAIN_FIRST_MS = 10;
/**
 * How often a connect tries to spawn for a key that seems free, even if it may not wait: with the
 * pauses over a second, in which the winner of a race commits. Counted in tries, because on a slow
 * machine the winner is as slow as the loser.
 */
const LOST_SPAWNS_MIN = 8;
/**
 * How many connects for one key try to spawn at once when one has failed: half of the connections for transitions, which
 * grants of other keys need too.
 */
const SPAWNS_BESIDE_MAX = 4;

/** What all connects of a controller share. */
interface Shared extends ConnectDeps {
  readonly readKey: ReturnType<typeof createKeyStateReader<KeyState>>;
  /** Notes a use of a backend with idle stop; false when nobody may be sent to it. */
  readonly touch: (leaseId: string) => Promise<boolean>;
  readonly answers: ConnectAnswers;
  readonly tickets: Tickets;
  /** Spawn attempts under way in this process, by topic; undefined when another caller was granted the key. */
  readonly spawning: RequestsInProgress<ConnectResult | undefined>;
}

export function createConnect(
  deps: ConnectDeps,
): Pick<KeyService, 'connect' | 'connectAgain' | 'refuse'> {
  const { store } = deps;
  const answers = createConnectAnswers(store);
  const shared: Shared = {
    ...deps,
    readKey: createKeyStateReader(store, deps.heartbeatMs, stateOf),
    touch: createToucher(store),
    answers,
    tickets: createTickets(store.general),
    spawning: new RequestsInProgress(SPAWNS_BESIDE_MAX),
  };
  return {
    async connect(input, caller, signal, reserve) {
      const idempotent = keyedConnect(input, caller);
      const result = await connectOnceFor(answers, idempotent, () =>
        new OneConnect(shared, { input, caller, signal, idempotent, reserve }).run(),
      );
      return input.waitFor === 'ready' ? waitUntilReady(store, result, signal) : result;
    },

    async connectAgain(input, caller, signal) {
      const idempotent = keyedConnect(input, caller);
      const result = idempotent && (await answeredBefore(store, idempotent));
      if (result === undefined || input.waitFor !== 'ready') return result;
      return waitUntilReady(store, result, signal);
    },

    refuse: (input, caller, error) => refuseOnce(answers, keyedConnect(input, caller), error),
  };
}

/** One connect, from its first look to its answer. See the top of this file. */
class OneConnect {
  readonly #shared: Shared;
  readonly #store: Store;
  readonly #wanted: Wanted;
  readonly #topic: string;
  readonly #startedAtMs: number;
  #ticketId: string | undefined;
  #lostSpawnsCount = 0;
  /** Whether it was found that the request has not come before. */
  #isNew = false;

  constructor(shared: Shared, wanted: Wanted) {
    this.#shared = shared;
    this.#store = shared.store;
    this.#wanted = wanted;
    this.#topic = keyTopic(wanted.input.key);
    this.#startedAtMs = shared.store.clock.nowMs();
  }

  async run(): Promise<ConnectResult> {
    let isAnswered = false;
    try {
      let answer: ConnectResult | undefined;
      while (answer === undefined) answer = await this.#look();
      isAnswered = true;
      return answer;
    } finally {
      await this.#leaveTheLine(isAnswered);
    }
  }

  /** Looks once and does what is to be done; undefined when it must look again. */
  async #look(): Promise<ConnectResult | undefined> {
    const { input, signal } = this.#wanted;
    const { key } = input;
    signal.throwIfAborted();
    const hasOtherFailed = await this.#shared.spawning.hasFailed(this.#topic);
    const found = await this.#shared.readKey(key, this.#wanted.idempotent);
    const before = this.#mayBeRepeated(found) ? await this.#answerBefore() : undefined;
    if (before !== undefined) return before;
    const { state } = found;
    this.#assertAtHome(state);
    const decision = decideConnect(state, { tag: key.tag, hasSpawn: input.spawn !== undefined });
    switch (decision.do) {
      case 'return':
        return this.#join(state);
      case 'refuse':
        this.#store.observer.grant('key', 'denied', grantStatusOf(state));
        throw refusalOf(decision.code, state);
      case 'wait':
        await this.#wait(decision, state);
        return undefined;
      case 'spawn':
        return this.#spawn(state, hasOtherFailed);
      default:
        return assertNever(decision);
    }
  }

  /** Whether the request may have been answered before: nothing is done for it until that is known. */
  #mayBeRepeated({ state, isRequestRecorded }: FoundKey<KeyState>): boolean {
    if (this.#wanted.idempotent === undefined) return false;
    return isRequestRecorded || (state === undefined && !this.#isNew);
  }

  async #answerBefore(): Promise<ConnectResult | undefined> {
    const { idempotent } = this.#wanted;
    const before = idempotent && (await answeredBefore(this.#store, idempotent));
    this.#isNew = before === undefined;
    return before;
  }

  /**
   * Answers with the backend that runs. That is recorded if the request could start one: its late duplicate must not.
   * A request without a program changes nothing, whenever it comes, and leaves no record.
   * @returns undefined when it was found idle meanwhile: the key is to be read again.
   */
  async #join(state: KeyState | undefined): Promise<ConnectResult | undefined> {
    const { input, idempotent } = this.#wanted;
    if (state?.backend?.hasIdleStop === true && !(await this.#shared.touch(state.lease.leaseId))) {
      return undefined;
    }
    const result = resultOf(this.#store, input.key, state);
    if (idempotent !== undefined && input.spawn !== undefined) {
      const { backendId, spawned } = result;
      const first = await this.#shared.answers.first(idempotent, { backendId, spawned });
      if (first !== undefined) return first;
    }
    this.#store.observer.grant('key', 'denied', 'active');
    this.#store.observer.joined('key');
    return result;
  }

  /** @throws {NotAtHome} when the key's row belongs to another reservation: the key has moved, or will. */
  #assertAtHome(state: KeyState | undefined): void {
    const { input, reserve } = this.#wanted;
    const home = state?.homeReservation ?? null;
    if (home === null || home === input.homeReservation) return;
    // A key whose home is not looked up lives under the reservation of its row.
    const isHere = reserve !== undefined && datacenterOf(home) === this.#store.datacenter;
    if (!isHere) throw new NotAtHome();
  }

  /** @throws {LeaseError} the decision's code when the wait is over, or must end before the next start may be. */
  async #wait(decision: Extract<ConnectDecision, { do: 'wait' }>, state: KeyState | undefined) {
    const { input, caller, signal } = this.#wanted;
    const leftMs = this.#startedAtMs + input.waitMs - this.#store.clock.nowMs();
    const isCrashLoop = decision.code === 'backend.crash_loop';
    if (leftMs <= 0 || (isCrashLoop && decision.remainingMs > leftMs)) {
      this.#store.observer.grant('key', 'denied', grantStatusOf(state));
      throw isCrashLoop
        ? await crashLoopOf(this.#store, input.key, decision.remainingMs)
        : waitOver(decision, state);
    }
    this.#ticketId ??= this.#store.ids.uuid();
    const { name, namespace } = input.key;
    const ticket = { ticketId: this.#ticketId, waiter: caller.actor, principal: caller.principal };
    await this.#shared.tickets.hold({ face: 'key', namespace, name, ...ticket });
    const waitMs = Math.min(leftMs, LOOK_INTERVAL_MS, Math.max(1, decision.remainingMs));
    await this.#store.hints.next(this.#topic, this.#store.clock.nowMs() + waitMs, signal);
  }

  async #leaveTheLine(isAnswered: boolean): Promise<void> {
    if (this.#ticketId === undefined) return;
    const waitedMs = this.#store.clock.nowMs() - this.#startedAtMs;
    const outcome = isAnswered ? 'granted' : 'gave_up';
    this.#store.observer.waited('key', waitedMs, outcome);
    // A ticket that could not be dropped lapses.
    await this.#shared.tickets.drop({ ticketId: this.#ticketId, outcome }).catch(() => undefined);
  }

  async #spawn(
    state: KeyState | undefined,
    hasOtherFailed: boolean,
  ): Promise<ConnectResult | undefined> {
    const { signal } = this.#wanted;
    const isPlain = state === undefined || state.lease.endReason === 'released';
    const waitingSinceMs = this.#ticketId === undefined ? undefined : this.#startedAtMs;
    const homeReservation = state?.homeReservation ?? this.#wanted.input.homeReservation;
    const input = { ...this.#wanted.input, homeReservation };
    const wanted = { ...this.#wanted, input, waitingSinceMs, isPlain };
    const attempt = (): Promise<ConnectResult | undefined> => {
      signal.throwIfAborted();
      return startBackend(this.#shared, wanted);
    };
    // Others in this process have read the same: only one tries, and the rest look again, unless it fails.
    const tried = await this.#shared.spawning.runInTurn(this.#topic, attempt, hasOtherFailed);
    if (tried !== undefined && tried.answer === undefined) await this.#pauseAfterLostSpawn();
    return tried?.answer;
  }

  /**
   * A spawn that was granted nothing met a faster one, whose backend is the answer as soon as it has
   * committed.
   * @throws {LeaseError} `grant.contended` when the wait is over.
   */
  async #pauseAfterLostSpawn(): Promise<void> {
    const { input, signal } = this.#wanted;
    this.#lostSpawnsCount += 1;
    const nowMs = this.#store.clock.nowMs();
    const isWaitOver = nowMs >= this.#startedAtMs + input.waitMs;
    if (isWaitOver && this.#lostSpawnsCount >= LOST_SPAWNS_MIN) {
      throw new LeaseError('grant.contended');
    }
    const pauseMs = Math.min(
      LOOK_INTERVAL_MS,
      LOOK_AGAIN_FIRST_MS * 2 ** (this.#lostSpawnsCount - 1),
    );
    await this.#store.hints.next(this.#topic, nowMs + pauseMs, signal);
  }
}

function stateOf(row: KeyStateRow): KeyState {
  const { backendId, backendStatus, address, droneId, hasIdleStop } = row;
  const { isDroneReachable, isStopAsked } = row;
  return {
    lease: row,
    doubtMs: row.doubtMs,
    isDroneReachable,
    isStopAsked,
    homeReservation: row.homeReservation,
    delayMs: row.delayMs,
    backend:
      backendId === null || backendStatus === null || droneId === null
        ? null
        : { id: backendId, status: backendStatus as BackendStatus, address, droneId, hasIdleStop },
  };
}

/** The backend that runs; {@link decideConnect} has seen that there is one. */
function resultOf(
  store: Store,
  { name, namespace }: NamedConnect['key'],
  state: KeyState | undefined,
): ConnectResult {
  invariant(state?.backend != null, 'a key is returned with its backend');
  const { lease, backend } = state;
  return {
    key: { name, namespace, tag: lease.tag },
    backendId: backend.id,
    leaseId: lease.leaseId,
    fencingToken: lease.fencingToken,
    spawned: false,
    status: backend.status,
    address: backend.address,
    droneId: backend.droneId,
    datacenter: store.datacenter,
  };
}

function waitOver(
  { code, remainingMs }: Extract<ConnectDecision, { do: 'wait' }>,
  state: KeyState | undefined,
): LeaseError {
  const details = { remainingMs: Math.ceil(remainingMs), holder: state?.lease.holder };
  if (code !== 'grant.hold_off') return new LeaseError(code, undefined, { details });
  return new LeaseError(
    code,
    'The key has expired by a database clock that was not watched or has jumped: its last holder may still act.',
    { details: { ...details, reason: 'clock' } },
  );
}

function refusalOf(code: 'key.tag_mismatch' | 'key.unheld', state: KeyState | undefined) {
  const details =
    code === 'key.tag_mismatch' && state !== undefined
      ? {
          holder: state.lease.holder,
          since: isoOf(state.lease.grantedAt),
          remainingMs: Math.max(0, Math.ceil(state.lease.expiresAt - state.lease.asOf)),
        }
      : {};
  return new LeaseError(code, undefined, { details });
}
