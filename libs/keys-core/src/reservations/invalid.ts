import { LeaseError } from '../kernel/errors.ts';
import { datacenterOf } from '../kernel/reservation.ts';
import { storeErrorOf } from '../keys/index.ts';

/** @throws {LeaseError} `config.invalid` when a datacenter's name belongs to another database. */
export function assertOwn(datacenter: string, holderId: string, clusterId: string): void {
  if (holderId === clusterId) return;
  throw invalid(
    `LEASEHOLD_DATACENTER "${datacenter}" is the name of the database with the cluster id ${holderId}; this database has the id ${clusterId}`,
  );
}

/** The error for a configuration that would give a key two homes. */
export function invalid(problem: string): LeaseError {
  return new LeaseError('config.invalid', `The configuration is not valid: ${problem}.`, {
    details: { problems: [problem] },
  });
}

/** The error for a key that another move has taken elsewhere. */
export function movedMeanwhile(toId: string): LeaseError {
  return new LeaseError('reservation.moved_meanwhile', undefined, {
    details: { datacenter: datacenterOf(toId), reservationId: toId },
  });
}

/**
 * The error for a key that has left its home, in place of one that would say that nothing has happened.
 * Errors that no retry changes stay as they are.
 */
export function unfinished(error: unknown, toDatacenter: string): unknown {
  const known = storeErrorOf(error);
  if (!(known instanceof LeaseError) || !known.retryable) return error;
  if (known.code === 'reservation.moved_meanwhile') return error;
  return new LeaseError('reservation.move_unfinished', undefined, {
    details: { datacenter: toDatacenter, reason: known.code },
    cause: error,
  });
}

/** The error for a reservation that is not the home that it was taken for. */
export function conflict(reservationId: string): LeaseError {
  return new LeaseError('reservation.conflict', undefined, { details: { reservationId } });
}
