import { describeError } from '@leasehold/api';
import type { Logger } from '@leasehold/service-kit';

/** Logs what failed, with the incident id that the caller was told. Refusals are not failures. */
export interface FailureLog {
  /** @param level `warn` for a failure that an unknown caller can cause. */
  note(error: Error, path: string | undefined, level?: 'error' | 'warn'): void;
}

export function createFailureLog(log: Logger): FailureLog {
  return {
    note(error, path, level = 'error') {
      const { incidentId, leaseholdCode } = describeError(error);
      if (incidentId === null) log.debug({ path, leaseholdCode }, 'call refused');
      else {
        log[level]({ incidentId, path, leaseholdCode, err: error.cause ?? error }, 'call failed');
      }
    },
  };
}
