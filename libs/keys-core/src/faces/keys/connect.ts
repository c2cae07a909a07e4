/**
 * `connect`: the one running backend of a key, or a new one.
 *
 * Look, decide, act, and look again whenever acting changed nothing:
 *
 * 1. Read the key, its backend and its drone's liveness in one statement.
 * 2. {@link decideConnect} says: return it, refuse, wait, or spawn.
 * 3. *Wait*: hold a ticket, wait for a hint that the key was freed, or half a second, or the key's
 *    own end, and look again until `waitMs` is over.
 * 4. *Spawn*: choose a drone, then one transaction grants, records the backend and queues the
 *    action. If somebody else was granted the key meanwhile, look again: their backend is the answer.
 *
 * N concurrent connects for one key end in one spawn because the grant statement is the judge; the
 * others of one process wait for the first attempt instead of competing with it.
 */
import { LeaseError, assertNever } from '../../kernel/errors.ts';
import type { Ladder } from '../../kernel/ladder.ts';
import { isStopping, type BackendStatus } from '../../kernel/backend-state.ts';
import { databaseFailureOf } from '../../store/database-errors.ts';
import { createKeyStateReader, type KeyStateRow } from '../../store/key-state.ts';
import { timed } from '../../store/lease-store.ts';
import type { Store } from '../../store/open-store.ts';
import { readAnswer } from '../../store/requests.ts';
import { isoOf } from '../../store/rows.ts';
import { spawn, type SpawnOutcome, type SpawnPlan } from '../../store/spawn.ts';
import { dropTicket, holdTicket } from '../../store/tickets.ts';
import { decideConnect, type KeyState } from './decide-connect.ts';
import type { Caller, ConnectInput, ConnectResult, SpawnRequest } from './key-types.ts';

/** Chooses a drone for a program, or says why there is none. */
export type ChooseDrone = (
  wanted: Pick<SpawnRequest, 'program' | 'args' | 'env'>,
) => Promise<{ readonly droneId: string } | { readonly problem: 'no_drone' | 'not_allowed' }>;

export interface ConnectDeps {
  readonly store: Store;
  readonly ladder: Ladder;
  readonly heartbeatMs: number;
  readonly chooseDrone: ChooseDrone;
}

/** Another request with the same idempotency key was answered while this one was carried out. */
export class AnsweredMeanwhile extends Error {
  override readonly name = 'AnsweredMeanwhile';
}

/** How long a waiting connect goes without looking when no hint comes. */
const LOOK_INTERVAL_MS = 500;
/**
 * How soon a connect looks again whose spawn was granted nothing: at first the winner of a race is
 * about to commit, so soon; each further time later, up to {@link LOOK_INTERVAL_MS}.
 */
const LOOK_AGAIN_FIRST_MS = 10;
/**
 * How often a connect tries to spawn a key that seems free, even if it may not wait for one: over a
 * second with the pauses in between, in which the winner of a race has committed. Counted in tries,
 * because on a slow machine the winner is as slow as the loser.
 */
const LOST_SPAWNS_MIN = 8;
/** How often a connect chooses another drone because the chosen one was drained meanwhile. */
const DRONE_TRIES_MAX = 3;
/** Plane's form of a generated key. */
const RANDOM_KEY_PREFIX = 'lk-';
const RANDOM_LENGTH = 14;

export type Connect = (
  input: ConnectInput,
  caller: Caller,
  signal: AbortSignal,
) => Promise<ConnectResult>;

interface Wanted {
  readonly key: { readonly name: string; readonly namespace: string; readonly tag: string };
  readonly input: ConnectInput;
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

export function createConnect(deps: ConnectDeps): Connect {
  const { store } = deps;
  /** Spawn attempts under way in this process, by topic. */
  const spawning = new Map<string, Promise<unknown>>();

  const readRow = createKeyStateReader(store, deps.heartbeatMs);

  async function read(key: Wanted['key']): Promise<KeyState | undefined> {
    const row = await readRow(key);
    return row === undefined ? undefined : stateOf(row);
  }

  async function connectOnce(wanted: Wanted): Promise<ConnectResult> {
    const { key, input, caller, signal } = wanted;
    const topic = keyTopic(key);
    const startedAtMs = store.clock.nowMs();
    const ticketId = store.ids.uuid();
    let hasTicket = false;
    let isAnswered = false;
    let lostSpawnsCount = 0;
    try {
      for (;;) {
        signal.throwIfAborted();
        await spawning.get(topic);
        const state = await read(key);
        const decision = decideConnect(state, { tag: key.tag, hasSpawn: input.spawn !== undefined });
        switch (decision.do) {
          case 'return':
            store.observer.grant('key', 'denied', 'active');
            isAnswered = true;
            return resultOf(store, state as KeyState, false);
          case 'refuse':
            store.observer.grant('key', 'denied', decision.code === 'key.unheld' ? 'free' : 'active');
            throw refusalOf(decision.code, state);
          case 'wait': {
            const leftMs = startedAtMs + input.waitMs - store.clock.nowMs();
            if (leftMs <= 0) {
              store.observer.grant('key', 'denied', 'active');
              throw new LeaseError(decision.code, undefined, {
                details: { remainingMs: Math.ceil(decision.remainingMs), holder: state?.lease.holder },
              });
            }
            await holdTicket(store.prisma, { face: 'key', ...key }, {
              ticketId, waiter: caller.actor, principal: caller.principal,
            });
            hasTicket = true;
            const waitMs = Math.min(leftMs, LOOK_INTERVAL_MS, Math.max(1, decision.remainingMs));
            await store.hints.next(topic, store.clock.nowMs() + waitMs, signal);
            break;
          }
          case 'spawn': {
            // Others of this process have read the same: one of them tries, the rest look again.
            if (spawning.has(topic)) break;
            const attempt = startBackend(wanted);
            const settled = attempt.then(() => undefined, () => undefined);
            spawning.set(topic, settled);
            const made = await attempt.finally(() => {
              if (spawning.get(topic) === settled) spawning.delete(topic);
            });
            isAnswered = made !== undefined;
            if (made !== undefined) return made;
            lostSpawnsCount += 1;
            await pauseAfterLostSpawn(wanted, { startedAtMs, lostSpawnsCount });
            break;
          }
          default:
            assertNever(decision);
        }
      }
    } finally {
      if (hasTicket) {
        store.observer.waited('key', store.clock.nowMs() - startedAtMs, isAnswered ? 'granted' : 'gave_up');
        await dropTicket(store.prisma, ticketId).catch(() => undefined);
      }
    }
  }

  /**
   * A spawn that was granted nothing met a faster one, whose backend is the answer as soon as it has
   * committed. But after a jump of the database's clock a key can seem free for a whole ladder.
   * @throws {LeaseError} `grant.contended` when the wait is over.
   */
  async function pauseAfterLostSpawn(
    { key, input, signal }: Wanted,
    so: { readonly startedAtMs: number; readonly lostSpawnsCount: number },
  ): Promise<void> {
    const nowMs = store.clock.nowMs();
    const isWaitOver = nowMs >= so.startedAtMs + input.waitMs;
    if (isWaitOver && so.lostSpawnsCount >= LOST_SPAWNS_MIN) throw new LeaseError('grant.contended');
    const pauseMs = Math.min(LOOK_INTERVAL_MS, LOOK_AGAIN_FIRST_MS * 2 ** (so.lostSpawnsCount - 1));
    await store.hints.next(keyTopic(key), nowMs + pauseMs, signal);
  }

  /** One attempt to start a backend; undefined when somebody else was granted the key. */
  async function startBackend(wanted: Wanted): Promise<ConnectResult | undefined> {
    const { key, input } = wanted;
    const asked = input.spawn;
    if (asked === undefined) throw new LeaseError('key.unheld');
    for (let tries = 0; tries < DRONE_TRIES_MAX; tries += 1) {
      const chosen = await deps.chooseDrone(asked);
      if ('problem' in chosen) {
        throw new LeaseError(chosen.problem === 'no_drone' ? 'spawn.no_drone' : 'spawn.not_allowed');
      }
      const plan = planOf(deps, wanted, { ...asked, droneId: chosen.droneId });
      const made = await runSpawn(plan);
      if (made.outcome === 'held') return undefined;
      if (made.outcome === 'drone_gone') continue;
      const previousEnd = made.grant.previous?.end === 'expired' ? 'expired' : 'free';
      store.observer.grant('key', 'granted', previousEnd);
      store.hints.notify(`drone:${chosen.droneId}`);
      for (const backendId of made.lostBackendIds) store.hints.notify(`backend:${backendId}`);
      return {
        key,
        backendId: plan.backendId,
        leaseId: made.grant.leaseId,
        fencingToken: made.grant.fencingToken,
        spawned: true,
        status: 'scheduled',
        address: null,
        droneId: chosen.droneId,
        datacenter: store.datacenter,
      };
    }
    throw new LeaseError('spawn.no_drone');
  }

  async function runSpawn(plan: SpawnPlan): Promise<SpawnOutcome> {
    try {
      return await timed(store, 'connect', () => spawn(store, plan));
    } catch (error) {
      const failure = databaseFailureOf(error);
      if (failure === 'contention') {
        // A deadlock, or this very request is being carried out twice.
        if (await isAnswered(plan)) throw new AnsweredMeanwhile();
        return { outcome: 'held' };
      }
      if (failure === 'lost') throw new LeaseError('request.outcome_unknown', undefined, { cause: error });
      throw error;
    }
  }

  async function isAnswered({ idempotency }: SpawnPlan): Promise<boolean> {
    if (idempotency === null) return false;
    const answer = await readAnswer(store.prisma, idempotency.principal, idempotency.key);
    return answer !== undefined;
  }

  return (input, caller, signal) => {
    const key = input.key ?? {
      name: `${RANDOM_KEY_PREFIX}${store.ids.alphanumeric(RANDOM_LENGTH)}`,
      namespace: '',
      tag: '',
    };
    return connectOnce({ key, input, caller, signal });
  };
}

function planOf(
  deps: ConnectDeps,
  wanted: Wanted,
  asked: SpawnRequest & { readonly droneId: string },
): SpawnPlan {
  const { key, input, caller } = wanted;
  const { ids } = deps.store;
  return {
    request: {
      face: 'key',
      namespace: key.namespace,
      name: key.name,
      leaseId: ids.uuid(),
      holder: asked.droneId,
      principal: asked.droneId,
      tag: key.tag,
      comment: null,
      metadata: null,
      ladder: deps.ladder,
      actor: caller.actor,
    },
    droneId: asked.droneId,
    backendId: `bk-${ids.alphanumeric(RANDOM_LENGTH)}`,
    program: asked.program,
    args: asked.args,
    env: asked.env,
    lifetimeLimitSeconds: asked.lifetimeLimitSeconds ?? null,
    idempotency:
      input.idempotencyKey === undefined
        ? null
        : { principal: caller.principal, key: input.idempotencyKey },
  };
}

/** The topic of hints that a key was freed. */
export function keyTopic(key: { readonly namespace: string; readonly name: string }): string {
  return `key:${key.namespace}/${key.name}`;
}

function stateOf(row: KeyStateRow): KeyState {
  const { backendId, backendStatus, address, droneId, isDroneReachable, isStopAsked, ...lease } = row;
  return {
    lease,
    isDroneReachable,
    isStopAsked,
    backend:
      backendId === null || backendStatus === null || droneId === null
        ? null
        : { id: backendId, status: backendStatus as BackendStatus, address, droneId },
  };
}

function resultOf(store: Store, state: KeyState, spawned: boolean): ConnectResult {
  const { lease, backend } = state;
  if (backend === null || isStopping(backend.status)) throw new LeaseError('key.terminating');
  return {
    key: { name: lease.name, namespace: lease.namespace, tag: lease.tag },
    backendId: backend.id,
    leaseId: lease.leaseId,
    fencingToken: lease.fencingToken,
    spawned,
    status: backend.status,
    address: backend.address,
    droneId: backend.droneId,
    datacenter: store.datacenter,
  };
}

function refusalOf(code: 'key.tag_mismatch' | 'key.unheld', state: KeyState | undefined): LeaseError {
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
