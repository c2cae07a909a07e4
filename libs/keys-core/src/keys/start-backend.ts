import { type KeyedRequest, observeHandover, readRequest } from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { Ladder } from '../kernel/ladder.ts';
import { newTimedId } from '../kernel/clock.ts';
import type { ProgramTimes } from '../kernel/drones.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { Store } from '../postgres/open-store.ts';
import { timed } from '../postgres/kernel-store.ts';
import type { ConnectResult, NamedConnect, ReserveHere, SpawnRequest } from './key-types.ts';
import { spawn, type SpawnOutcome, type SpawnPlan } from './sql/spawn.ts';

/** Chooses a drone for a program, with what the program limits there, or says why none exists. */
export type ChooseDrone = (
  wanted: Pick<SpawnRequest, 'program' | 'args' | 'env'>,
) => Promise<
  | ({ readonly droneId: string } & ProgramTimes)
  | { readonly problem: 'no_drone' | 'not_allowed' }
  | { readonly problem: 'not_offered'; readonly offered: readonly string[] }
>;

export interface ConnectDeps {
  readonly store: Store;
  /** The ladder of new grants; a living grant keeps its own. */
  readonly ladder: Ladder;
  readonly heartbeatMs: number;
  readonly chooseDrone: ChooseDrone;
}

/** Another request with the same idempotency key was answered while this one was carried out. */
export class AnsweredMeanwhile extends Error {
  override readonly name = 'AnsweredMeanwhile';
}

/** The key lives, or has moved, under another reservation than the one that the caller came with. */
export class NotAtHome extends Error {
  override readonly name = 'NotAtHome';
}

/** One connect that is being carried out. */
export interface Wanted {
  readonly input: NamedConnect;
  readonly caller: Caller;
  readonly signal: AbortSignal;
  /** What is recorded of it, if it has an idempotency key. */
  readonly idempotent: KeyedRequest | undefined;
  /** For a key that comes without the reservation that it lives under. */
  readonly reserve?: ReserveHere | undefined;
  /** Since when it has waited for the key, by the controller's clock; undefined when it has not. */
  readonly waitingSinceMs?: number | undefined;
  /** Whether the key seemed never to have been held, or released by its last holder. */
  readonly isPlain?: boolean;
}

/** How many drones a connect chooses, one after the other, if each was drained meanwhile. */
const DRONE_TRIES_MAX = 3;
/** Plane's length of a random name. */
export const RANDOM_ID_LENGTH = 14;

/**
 * One attempt to start a backend; undefined when somebody else was granted the key.
 * @throws {NotAtHome} when the caller's reservation is not the key's active home.
 */
export async function startBackend(
  deps: ConnectDeps,
  wanted: Wanted,
): Promise<ConnectResult | undefined> {
  const asked = wanted.input.spawn;
  if (asked === undefined) throw new LeaseError('key.unheld');
  for (let tries = 0; tries < DRONE_TRIES_MAX; tries += 1) {
    const chosen = await deps.chooseDrone(asked);
    if ('problem' in chosen) throw noDroneFor(asked.program, chosen);
    const { key, homeReservation = await wanted.reserve?.(key) } = wanted.input;
    const times = timesOf(asked, chosen);
    const plan = planOf(deps, wanted, {
      ...asked,
      ...times,
      droneId: chosen.droneId,
      homeReservation,
    });
    const made = await runSpawn(deps.store, plan);
    if (made.outcome === 'held') return undefined;
    if (made.outcome === 'not_home') throw new NotAtHome();
    if (made.outcome === 'spawned') return spawnedResult(deps.store, wanted, { plan, made });
  }
  throw noDroneFor(asked.program, { problem: 'no_drone' });
}

function noDroneFor(
  program: string,
  chosen: Extract<Awaited<ReturnType<ChooseDrone>>, { problem: string }>,
): LeaseError {
  if (chosen.problem === 'not_allowed') return new LeaseError('spawn.not_allowed');
  const isOffered = !('offered' in chosen);
  const message = isOffered ? undefined : `No drone offers the program "${program}".`;
  const details = isOffered ? { program } : { program, offered: chosen.offered };
  return new LeaseError('spawn.no_drone', message, { details });
}

/**
 * The request's own where it has one. A program's lifetime is the most that anybody gets: it protects the drone. Its
 * idle time is a default: it saves what nobody uses, and a caller knows better how its users come and go.
 */
function timesOf(asked: ProgramTimes, program: ProgramTimes): ProgramTimes {
  const lifetimes = [asked.lifetimeLimitSeconds, program.lifetimeLimitSeconds].filter(
    (seconds) => seconds !== undefined,
  );
  return {
    lifetimeLimitSeconds: lifetimes.length === 0 ? undefined : Math.min(...lifetimes),
    idleStopSeconds: asked.idleStopSeconds ?? program.idleStopSeconds,
  };
}

/** Notifies the drone and the watchers of lost backends, and makes the answer. */
function spawnedResult(
  store: Store,
  { input, waitingSinceMs }: Wanted,
  { plan, made }: { plan: SpawnPlan; made: Extract<SpawnOutcome, { outcome: 'spawned' }> },
): ConnectResult {
  const { grant } = made;
  store.observer.grant('key', 'granted', grant.previous?.end === 'expired' ? 'expired' : 'free');
  if (waitingSinceMs !== undefined) {
    observeHandover(store, grant, store.clock.nowMs() - waitingSinceMs);
  }
  store.hints.notify(`drone:${plan.droneId}`);
  for (const backendId of made.lostBackendIds) store.hints.notify(`backend:${backendId}`);
  return {
    key: input.key,
    backendId: plan.backendId,
    leaseId: grant.leaseId,
    fencingToken: grant.fencingToken,
    spawned: true,
    status: 'scheduled',
    address: null,
    droneId: plan.droneId,
    datacenter: store.datacenter,
  };
}

async function runSpawn(store: Store, plan: SpawnPlan): Promise<SpawnOutcome> {
  try {
    return await timed(store, 'connect', () => spawn(store, plan));
  } catch (error) {
    const failure = databaseFailureOf(error);
    if (failure === 'contention') {
      // A deadlock, or this very request is being carried out twice.
      if (await isAnswered(store, plan)) throw new AnsweredMeanwhile();
      return { outcome: 'held' };
    }
    if (failure === 'lost') {
      throw new LeaseError('request.outcome_unknown', undefined, { cause: error });
    }
    throw error;
  }
}

async function isAnswered(store: Store, { idempotent }: SpawnPlan): Promise<boolean> {
  return idempotent !== null && (await readRequest(store.general, idempotent)) !== undefined;
}

function planOf(
  deps: ConnectDeps,
  wanted: Wanted,
  asked: SpawnRequest & { readonly droneId: string; readonly homeReservation: string | undefined },
): SpawnPlan {
  const { input, caller } = wanted;
  const { ids } = deps.store;
  return {
    request: {
      face: 'key',
      namespace: input.key.namespace,
      name: input.key.name,
      leaseId: newTimedId(deps.store),
      holder: asked.droneId,
      principal: asked.droneId,
      tag: input.key.tag,
      comment: null,
      metadata: null,
      ladder: deps.ladder,
      actor: caller.actor,
      homeReservation: asked.homeReservation,
    },
    datacenter: deps.store.datacenter,
    droneId: asked.droneId,
    backendId: `bk-${ids.alphanumeric(RANDOM_ID_LENGTH)}`,
    program: asked.program,
    args: asked.args,
    env: asked.env,
    lifetimeLimitSeconds: asked.lifetimeLimitSeconds ?? null,
    idleStopSeconds: asked.idleStopSeconds ?? null,
    idempotent: wanted.idempotent ?? null,
    isPlain: wanted.isPlain === true,
  };
}
