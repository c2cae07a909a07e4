/**
 * Moves that wait for the key's grant to end, and all that a console requests: they are recorded at the
 * key’s home, and the controllers there carry them out. The caller need not stay.
 */
import type { Caller } from '../../kernel/face-types.ts';
import { ERROR_CODES, LeaseError } from '../../kernel/errors/index.ts';
import { parseReservationKey, type ReservationKey } from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { isoOf } from '../../postgres/sql.ts';
import type { PendingMove, ReservationService } from '../reservation-types.ts';
import type { LocalHome } from '../resolving/local-home.ts';
import {
  askForMove,
  endPendingMove,
  failPendingMove,
  readPendingMove,
  readReadyMoves,
  type PendingMoveRow,
} from '../sql/pending-moves.ts';
import { conflict, movedMeanwhile } from '../invalid.ts';

interface PendingMovesDeps {
  readonly store: Store;
  readonly local: LocalHome;
  readonly mover: Pick<ReservationService, 'moveHere'>;
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

    async requestMove(input, caller) {
      const { reservationId, key, toDatacenter, reason, waitsFor } = input;
      if (toDatacenter === store.datacenter) {
        throw new LeaseError('reservation.same_datacenter', undefined, {
          details: { datacenter: toDatacenter },
        });
      }
      const status = await local.reservationStatus(reservationId, key, caller.actor);
      if (status.standing === 'moved') throw movedMeanwhile(status.pointer.toId);
      const move = { reservationId, key, toDatacenter, reason, waitsFor, askedBy: caller.actor };
      if (!(await askForMove(store.general, move))) {
        local.forget(reservationId);
        throw conflict(reservationId);
      }
    },

    async cancelMove({ reservationId, key }) {
      const move = await readPendingMove(store.general, reservationId, key);
      return move !== null && (await failPendingMove(store.general, move, CANCELLED));
    },

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
async function carryOut({ store, mover }: PendingMovesDeps, move: PendingMoveRow): Promise<void> {
  if (move.leaseId !== null) {
    await failPendingMove(store.general, move, 'reservation.key_held');
    return;
  }
  const { toDatacenter, reason, askedBy } = move;
  const key = parseReservationKey(move.key);
  try {
    await mover.moveHere({ key, toDatacenter, reason }, callerNamed(askedBy));
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    if (error.code !== 'reservation.same_datacenter') {
      if (passes(error)) return;
      await failPendingMove(store.general, move, error.code);
      return;
    }
    // It had left before: asking has made it arrive.
  }
  await endPendingMove(store.general, move);
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
    ...{ reservationId, toDatacenter, askedBy, reason, failure },
    key: parseReservationKey(row.key),
    askedAt: isoOf(askedAt),
    heldBy:
      leaseId === null || heldUntil === null
        ? null
        : { leaseId, holder: holder ?? '', until: isoOf(heldUntil) },
  };
}
