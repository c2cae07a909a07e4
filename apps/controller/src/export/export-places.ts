import { LeaseError } from '@leasehold/keys-core';
import { once } from '../once.ts';

/** Each holds a page in memory, and keeps querying the database. */
const EXPORTS_MAX = 8;
/** So that one caller leaves places to the others. */
const EXPORTS_PER_PRINCIPAL_MAX = 2;

/** The places of the exports that are under way at once. */
export interface ExportPlaces {
  /**
   * Takes a place.
   * @returns a function that gives it back; called again, it does nothing.
   * @throws {LeaseError} `request.rate_limited` when all are taken, or all that one caller may have.
   */
  take(principal: string): () => void;
}

export function createExportPlaces(): ExportPlaces {
  const takenBy = new Map<string, number>();
  let takenCount = 0;
  return {
    take(principal) {
      const own = takenBy.get(principal) ?? 0;
      if (own >= EXPORTS_PER_PRINCIPAL_MAX) {
        throw refused(`You already have ${String(own)} exports in progress.`);
      }
      if (takenCount >= EXPORTS_MAX) {
        throw refused(`${String(takenCount)} exports are in progress already.`);
      }
      takenBy.set(principal, own + 1);
      takenCount += 1;
      return once(() => {
        takenCount -= 1;
        const left = (takenBy.get(principal) ?? 0) - 1;
        if (left > 0) takenBy.set(principal, left);
        else takenBy.delete(principal);
      });
    },
  };
}

function refused(why: string): LeaseError {
  return new LeaseError('request.rate_limited', `${why} Try again when one has ended.`);
}
