/**
 * Moving a key to another datacenter. The steps, each of which survives a crash after it:
 *
 * 1. ask the new datacenter whether it is there, and can ask us;
 * 2. *leave*: one transaction here that takes the key, writes the pointer and the audit, and seals the
 *    row (`sql/moves.ts`). Before it nothing has happened; after it the key has left;
 * 3. put the pointer into the reservation store;
 * 4. have the new datacenter activate the reservation, which it does when it has read the pointer.
 *
 * A caller that asks for the key after 2 is sent to the new datacenter, which takes steps 3 and 4 itself:
 * a move that was cut short is finished by the next connect, or when the same move is requested
 * again. One that the controllers carry out is finished by them.
 */
import { type AuditEntry, writeAudit } from '../access/index.ts';
import { ERROR_CODES, type ErrorCode, LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import {
  datacenterOf,
  keyNameOf,
  parseReservationKey,
  reservationIdOf,
  type ReservationKey,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import { keyTopic, namespaceText } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import type { Homes, HomesDeps, LocalHome } from './homes.ts';
import { conflict, movedMeanwhile, unfinished } from './invalid.ts';
import {
  type Home,
  type Moved,
  type MoveInput,
  peerOf,
  type PendingMove,
  type ReservationService,
  type ReservationStatus,
} from './reservation-types.ts';
import {
  askForMove,
  endPendingMove,
  failPendingMove,
  moveAway,
  type PendingMoveRow,
  readPendingMove,
  readReadyMoves,
} from './sql/moves.ts';

interface MoverDeps extends Omit<HomesDeps, 'store' | 'givenUp'> {
  readonly store: Store;
  readonly homes: Pick<Homes, 'adopt'>;
}

interface Moving extends Pick<ReservationService, 'move' | 'moveHere'> {
  /**
   * Carries out a move that was requested for a key that lives here.
   * @throws {Withdrawn}; {LeaseError} as `moveHere`.
   */
  moveAsked(input: MoveInput, caller: Caller, asked: PendingMoveRow): Promise<Moved>;
  /**
   * Steps 3 and 4 of a move whose key has left.
   * @returns false when the key is not known to have arrived.
   */
  finish(pointer: ReservationPointer, key: ReservationKey): Promise<boolean>;
}

/** The request was cancelled, has failed, or was replaced, before the key has left. */
class Withdrawn extends Error {
  override readonly name = 'Withdrawn';
}

export function createMover(deps: MoverDeps): Moving {
  return new Mover(deps);
}

class Mover implements Moving {
  readonly #deps: MoverDeps;

  constructor(deps: MoverDeps) {
    this.#deps = deps;
  }

  async move(input: MoveInput, caller: Caller, source?: string | null): Promise<Moved> {
    const { store, resolver } = this.#deps;
    const asking = { caller, source };
    const { home, isJustThere, isRecorded } = await this.#findHome(input, asking);
    // The same move, asked for again after it was cut short: asking has finished it.
    if (home.datacenter === input.toDatacenter && isJustThere) {
      if (!isRecorded) await this.#record(input, asking, home.reservationId);
      return home;
    }
    assertMovable(home, input);
    if (home.datacenter === store.datacenter) return this.#moveFrom(home, input, asking);
    const moved = await this.#moveThere(home, input, asking);
    moved.chain.forEach((toId, index) => {
      const fromId = moved.chain[index - 1];
      if (fromId !== undefined) resolver.learn({ fromId, toId });
    });
    await this.#record(input, asking, moved.reservationId);
    return moved;
  }

  moveHere(input: MoveInput, caller: Caller, source?: string | null): Promise<Moved> {
    return this.#moveOwn(input, { caller, source });
  }

  moveAsked(input: MoveInput, caller: Caller, { askedAt }: PendingMoveRow): Promise<Moved> {
    return this.#moveOwn(input, { caller, askedAt });
  }

  async finish(pointer: ReservationPointer, key: ReservationKey): Promise<boolean> {
    const { reservations, resolver, peers } = this.#deps;
    const stored = await reservations.putPointer(pointer);
    resolver.learn(stored);
    if (stored.toId !== pointer.toId) throw movedMeanwhile(stored.toId);
    const status = await peerOf(peers, datacenterOf(stored.toId)).reservationStatus(
      stored.toId,
      key,
    );
    // One that has moved on had arrived.
    return status.standing !== 'pending';
  }

  /** Has the datacenter that the key lives in move it, which records that in its own audit. */
  async #moveThere(home: Home, input: MoveInput, asking: Asking): Promise<Moved> {
    try {
      const peer = peerOf(this.#deps.peers, home.datacenter);
      return await peer.move(input, asking.caller, asking.source);
    } catch (error) {
      // It has left. Where it goes, the other datacenter alone knows so far.
      const hasLeft = error instanceof LeaseError && error.code === 'reservation.move_unfinished';
      if (hasLeft) await this.#record(input, asking, home.reservationId);
      throw error;
    }
  }

  async #moveOwn(input: MoveInput, asking: Asking): Promise<Moved> {
    const { home } = await this.#findHome(input, asking);
    assertMovable(home, input);
    if (home.datacenter !== this.#deps.store.datacenter) throw movedMeanwhile(home.reservationId);
    return this.#moveFrom(home, input, asking);
  }

  /**
   * Where the key lives, as that datacenter reports it, and whether it has only just arrived there. A key whose
   * datacenter was given up is moved by that alone, and then `isRecorded`.
   */
  async #findHome(input: MoveInput, asking: Asking) {
    const { resolver } = this.#deps;
    let isAdopted = false;
    let isRecorded = false;
    for (;;) {
      const home = await resolver.resolve(input.key);
      if (home === undefined) throw new LeaseError('reservation.not_found');
      if (await this.#deps.homes.adopt(home, input.key, input.toDatacenter)) {
        isAdopted = true;
        continue;
      }
      const isThere = home.chain.length > 1 && home.datacenter === input.toDatacenter;
      // As soon as it is in the store: whatever fails then, it was done.
      if (isThere && isAdopted && !isRecorded) {
        await this.#record(input, asking, home.reservationId);
        isRecorded = true;
      }
      const status = await this.#statusAt(home, input, asking.caller).catch((error: unknown) => {
        throw isThere ? unfinished(error, home.datacenter) : error;
      });
      if (status.standing === 'active') {
        const isJustThere = home.chain.length > 1 && status.isJustActivated === true;
        return { home, isJustThere, isRecorded };
      }
      if (status.standing === 'pending') {
        resolver.forget(home, input.key);
        throw conflict(home.reservationId);
      }
      resolver.learn(status.pointer);
    }
  }

  #statusAt(home: Home, input: MoveInput, caller: Caller): Promise<ReservationStatus> {
    const { store, local, peers } = this.#deps;
    // Another controller here may have moved it since. Leaving finds that out; a refusal to move it to where
    // it seems to live already would not.
    if (home.datacenter === input.toDatacenter) local.forget(home.reservationId);
    return home.datacenter === store.datacenter
      ? local.reservationStatus(home.reservationId, input.key, caller.actor)
      : peerOf(peers, home.datacenter).reservationStatus(home.reservationId, input.key);
  }

  async #moveFrom(home: Home, input: MoveInput, asking: Asking): Promise<Moved> {
    const { store, local, peers } = this.#deps;
    const toId = reservationIdOf(input.toDatacenter, store.ids.uuid());
    // Nothing is sealed for a datacenter that is unreachable. The new reservation is pending there.
    await peerOf(peers, input.toDatacenter).reservationStatus(toId, input.key);
    const pointer = await this.#leave(home, input, { ...asking, toId });
    local.forget(home.reservationId);
    const named = keyNameOf(input.key);
    if (named !== undefined) store.hints.notify(keyTopic(named));
    return this.#arrive(pointer, input, asking.caller).catch((error: unknown) => {
      throw unfinished(error, input.toDatacenter);
    });
  }

  /** Step 2. @throws {LeaseError} `reservation.key_held`, `reservation.moved_meanwhile`. */
  async #leave(
    home: Home,
    input: MoveInput,
    asking: Asking & { readonly toId: string },
  ): Promise<ReservationPointer> {
    const { store, resolver, local } = this.#deps;
    const { toId, caller, askedAt } = asking;
    const outcome = await moveAway(store, {
      key: input.key,
      fromId: home.reservationId,
      toId,
      actor: caller.actor,
      reason: input.reason,
      askedAt,
      entry: entryOf(input, asking, toId),
    });
    switch (outcome.outcome) {
      case 'sealed':
        for (const backendId of outcome.lostBackendIds) store.hints.notify(`backend:${backendId}`);
        return outcome.pointer;
      case 'moved':
        local.forget(home.reservationId);
        resolver.learn(outcome.pointer);
        if (datacenterOf(outcome.pointer.toId) !== input.toDatacenter) {
          throw movedMeanwhile(outcome.pointer.toId);
        }
        // Another controller here has carried out the same move, which this caller is told of too.
        await this.#record(input, asking, outcome.pointer.toId);
        return outcome.pointer;
      case 'held':
        throw new LeaseError('reservation.key_held', undefined, {
          details: { holder: outcome.holder, remainingMs: Math.ceil(outcome.remainingMs) },
        });
      case 'pending':
        throw conflict(home.reservationId);
      case 'withdrawn':
        throw new Withdrawn();
    }
  }

  /** Steps 3 and 4. */
  async #arrive(pointer: ReservationPointer, input: MoveInput, caller: Caller): Promise<Moved> {
    const { reservations, resolver } = this.#deps;
    const stored = await reservations.putPointer(pointer);
    resolver.learn(stored);
    if (stored.toId !== pointer.toId) throw movedMeanwhile(stored.toId);
    const home = await resolver.resolve(input.key);
    if (home === undefined) throw new LeaseError('reservation.not_found');
    if (home.datacenter !== input.toDatacenter) throw movedMeanwhile(home.reservationId);
    const status = await this.#statusAt(home, input, caller);
    if (status.standing === 'moved') {
      resolver.learn(status.pointer);
      throw movedMeanwhile(status.pointer.toId);
    }
    if (status.standing !== 'active') throw conflict(home.reservationId);
    return home;
  }

  /**
   * Writes the line of a move that no transaction of this datacenter has made: it stands, whether or not it is recorded.
   * @throws {LeaseError} `request.outcome_unknown`.
   */
  async #record(input: MoveInput, asking: Asking, reservationId: string): Promise<void> {
    const entry = entryOf(input, asking, reservationId);
    if (entry === undefined) return;
    try {
      await writeAudit(this.#deps.store.general, entry);
    } catch (cause) {
      const { toDatacenter: datacenter } = input;
      const message = `The key has left for the datacenter "${datacenter}", which could not be written into the audit here.`;
      throw new LeaseError('request.outcome_unknown', message, {
        details: { datacenter, reservationId },
        cause,
      });
    }
  }
}

/** Who acts, and from where. */
interface Acting {
  readonly caller: Caller;
  readonly source?: string | null | undefined;
}

/** Who moves, and which request this carries out, if it carries one out. */
interface Asking extends Acting {
  readonly askedAt?: number | undefined;
}

/** @throws {LeaseError} `reservation.same_datacenter`, `reservation.chain_too_long`. */
function assertMovable(home: Home, { toDatacenter }: MoveInput): void {
  if (home.datacenter === toDatacenter) {
    throw new LeaseError('reservation.same_datacenter', undefined, {
      details: { datacenter: toDatacenter },
    });
  }
  if (home.chain.length > LIMITS.reservationChainMax) {
    throw new LeaseError('reservation.chain_too_long');
  }
}

// Moves that wait for the key's grant to end, and all that a console requests: they are recorded at the
// key’s home, and the controllers there carry them out. The caller need not stay.

interface PendingMovesDeps {
  readonly store: Store;
  readonly local: LocalHome;
  readonly mover: Pick<Moving, 'moveAsked' | 'finish'>;
  readonly homes: Pick<Homes, 'assertKnown'>;
}

type PendingMoves = Pick<
  ReservationService,
  'requestMove' | 'cancelMove' | 'pendingMove' | 'carryOutMoves'
>;

/** Read at once. A round goes through all: requests that cannot go on must not delay others. */
const MOVES_PER_PAGE = 1_000;
/** Each asks another datacenter, which may be slow. */
const LANES = 8;
/** The `failure` of a move that somebody has cancelled; all others are error codes. */
const CANCELLED = 'cancelled';

export function createPendingMoves(deps: PendingMovesDeps): PendingMoves {
  const { store, local } = deps;

  async function pendingMove(input: { reservationId: string; key: ReservationKey }) {
    const row = await readPendingMove(store.reads, input.reservationId, input.key);
    return row === null ? null : viewOf(row);
  }

  return {
    pendingMove,

    async requestMove(input, caller, source) {
      const { reservationId, key, toDatacenter, reason, waitsFor } = input;
      if (toDatacenter === store.datacenter) {
        throw new LeaseError('reservation.same_datacenter', undefined, {
          details: { datacenter: toDatacenter },
        });
      }
      const status = await local.reservationStatus(reservationId, key, caller.actor);
      if (status.standing === 'moved') throw movedMeanwhile(status.pointer.toId);
      const move = { reservationId, key, toDatacenter, reason, waitsFor, askedBy: caller.actor };
      // Read in it too: after its commit, no failure may say that nothing was changed.
      const asked = await store.general.$transaction(async (tx) => {
        if (!(await askForMove(tx, move))) return null;
        await writeAudit(tx, moveEntry(input, { caller, source }, reservationId));
        return readPendingMove(tx, reservationId, key);
      });
      if (asked === null) {
        local.forget(reservationId);
        throw conflict(reservationId);
      }
      return viewOf(asked);
    },

    cancelMove: ({ reservationId, key }, caller, source) =>
      store.general.$transaction(async (tx) => {
        const move = await readPendingMove(tx, reservationId, key);
        if (move === null) return false;
        const ending = { failure: CANCELLED, ending: 'here' } as const;
        const isCancelled = await failPendingMove(tx, move, ending);
        if (isCancelled) await writeAudit(tx, cancelEntry(move, key, { caller, source }));
        return isCancelled;
      }),

    async carryOutMoves(signal) {
      const failures: unknown[] = [];
      let after: PendingMoveRow | null = null;
      do {
        const moves = await readReadyMoves(store.general, { after, limit: MOVES_PER_PAGE });
        after = moves.length < MOVES_PER_PAGE ? null : (moves.at(-1) ?? null);
        const lane = async (): Promise<void> => {
          for (let move = moves.shift(); move !== undefined; move = moves.shift()) {
            if (signal.aborted) return;
            await carryOut(deps, move).catch((error: unknown) => failures.push(error));
          }
        };
        await Promise.all(Array.from({ length: LANES }, lane));
      } while (after !== null && !signal.aborted);
      if (failures.length > 0) throw failures[0];
    },
  };
}

/** One try. A temporary refusal leaves the request for the next round. */
async function carryOut(deps: PendingMovesDeps, move: PendingMoveRow): Promise<void> {
  const { store, homes } = deps;
  try {
    homes.assertKnown(move.toDatacenter);
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    // Another controller may know it, whose configuration is newer.
    if (error.code === 'reservation.unknown_datacenter') return;
    // Nobody can go there, or arrive there.
    await failPendingMove(store.general, move, { failure: error.code, ending: 'any' });
    return;
  }
  const failure = await failureOf(deps, move);
  if (failure === undefined) return;
  if (failure === null) await endPendingMove(store.general, move);
  else await failPendingMove(store.general, move, { failure, ending: 'notOnItsWay' });
}

/** @returns why the request ends without a move; null when the key has arrived, undefined to try again. */
async function failureOf(
  { mover }: PendingMovesDeps,
  move: PendingMoveRow,
): Promise<ErrorCode | null | undefined> {
  const { toDatacenter, reason, askedBy, reservationId, movedTo, tokenFloor } = move;
  const key = parseReservationKey(move.key);
  try {
    if (movedTo !== null && tokenFloor !== null) {
      if (datacenterOf(movedTo) !== toDatacenter) return 'reservation.moved_meanwhile';
      const pointer = { fromId: reservationId, toId: movedTo, tokenFloor };
      return (await mover.finish(pointer, key)) ? null : undefined;
    }
    if (move.leaseId !== null) return 'reservation.key_held';
    await mover.moveAsked({ key, toDatacenter, reason }, callerNamed(askedBy), move);
    return null;
  } catch (error) {
    // What withdrew it has ended it, or has put another in its place.
    if (error instanceof Withdrawn) return undefined;
    if (!(error instanceof LeaseError)) throw error;
    // It had left before: asking has made it arrive.
    if (error.code === 'reservation.same_datacenter') return null;
    return passes(error) ? undefined : error.code;
  }
}

/** A holder that was granted the key in between is found by the next round. */
function passes({ code }: LeaseError): boolean {
  return code !== 'reservation.moved_meanwhile' && ERROR_CODES[code].retryable;
}

/** The rights of the person or token that asked were checked with the request. */
function callerNamed(actor: string): Caller {
  return { principal: actor, actor, role: 'operator', namespaces: null };
}

function viewOf(row: PendingMoveRow): PendingMove {
  const { reservationId, toDatacenter, askedBy, askedAt, reason, failure } = row;
  const { leaseId, holder, heldUntil } = row;
  return {
    reservationId,
    toDatacenter,
    askedBy,
    reason,
    failure,
    key: parseReservationKey(row.key),
    askedAt: isoOf(askedAt),
    heldBy:
      leaseId === null || heldUntil === null
        ? null
        : { leaseId, holder: holder ?? '', until: isoOf(heldUntil) },
  };
}

// What the audit keeps of moves, in the datacenter that was asked and in the one that the key left.

/** Undefined for a request that is carried out: it is in the audit since it was made. */
function entryOf(input: MoveInput, asking: Asking, reservationId: string): AuditEntry | undefined {
  return asking.askedAt === undefined ? moveEntry(input, asking, reservationId) : undefined;
}

/** @param reservationId the new one of the key; where it is not known yet, the one that it leaves. */
function moveEntry(
  { key, toDatacenter, reason }: MoveInput,
  { caller, source }: Acting,
  reservationId: string,
): AuditEntry {
  return {
    actor: caller.actor,
    role: caller.role,
    source,
    action: 'reservations.move',
    resource: resourceOf(key),
    reason,
    detail: { toDatacenter, reservationId },
  };
}

function cancelEntry(
  { reservationId }: Pick<PendingMoveRow, 'reservationId'>,
  key: ReservationKey,
  { caller, source }: Acting,
): AuditEntry {
  return {
    actor: caller.actor,
    role: caller.role,
    source,
    action: 'reservations.cancelMove',
    resource: resourceOf(key),
    detail: { reservationId },
  };
}

function resourceOf(key: ReservationKey): string {
  const named = keyNameOf(key);
  return named === undefined
    ? `reservation:${JSON.stringify(key)}`
    : `key:${namespaceText(named.namespace)}/${named.name}`;
}
