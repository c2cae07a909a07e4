import { createCoalescer, type BatchFailure, type Coalescer } from '@leasehold/keys-core';
import { TRACE_ORIGINS } from '@leasehold/service-kit/tracing';
import { callErrorOf, codedError, LeaseholdCallError } from '../../transport/call-errors.ts';
import type { Machine } from '../../machine.ts';
import type { Ending } from '../../signals.ts';
import { callWithin } from './calls.ts';

/** This many acquires with the largest metadata and comment fit into the largest message. */
const BATCH_SIZE_MAX = 40;
const CALLS_IN_FLIGHT_MAX = 4;
const QUEUE_MAX = 100_000;
const CALL_MS = 5_000;

/** An item of a batch that failed by itself, as it is sent on the wire. */
export interface FailedItem {
  readonly outcome: 'failed';
  readonly error: Pick<
    LeaseholdCallError,
    'code' | 'message' | 'retryable' | 'details' | 'incidentId'
  >;
}

/** Joins many calls of this process into few calls on the wire: see the coalescer. */
export function createBatches<Item, Answer extends { readonly outcome: string }>(
  machine: Machine,
  send: (items: Item[], ending: Ending) => Promise<readonly (Answer | FailedItem)[]>,
): Coalescer<Item, Answer> {
  return createCoalescer<Item, Answer>({
    run: async (items) => {
      const results = await callWithin(machine, { ms: CALL_MS }, (ending) =>
        send([...items], ending),
      );
      return results.map((result) =>
        isFailed(result) ? Promise.reject(failureOf(result)) : result,
      );
    },
    keysOf: () => [],
    failureOf: batchFailureOf,
    batchSizeMax: BATCH_SIZE_MAX,
    inFlightMax: CALLS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
    origins: TRACE_ORIGINS,
  });
}

function isFailed(result: { readonly outcome: string }): result is FailedItem {
  return result.outcome === 'failed';
}

function failureOf({ error }: FailedItem): LeaseholdCallError {
  return codedError(error.code, error);
}

/** A wrong item must not fail the others; retries are up to the waiting caller. */
function batchFailureOf(thrown: unknown): BatchFailure | undefined {
  const error = callErrorOf(thrown);
  const isOfAnItem =
    error instanceof LeaseholdCallError &&
    (error.code === 'request.invalid' || error.code === 'request.too_large');
  return isOfAnItem ? 'data' : undefined;
}
