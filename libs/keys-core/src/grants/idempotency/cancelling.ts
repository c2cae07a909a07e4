import { LeaseError } from '../../kernel/errors/index.ts';
import { type Face, leaseTopic } from '../../kernel/resource/resource.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import { pause } from '../../postgres/statements/timed.ts';
import { createCoalescer } from '../transitions/coalesce.ts';
import { wakeWaiters } from '../transitions/releasing.ts';
import {
  cancelRequests,
  type CancelOutcome,
  type Ended,
  type GivingUp,
} from './sql/cancel-requests.ts';
import { keyText } from './sql/requests.ts';

const REQUESTS_PER_TRANSACTION_MAX = 500;
const TRANSACTIONS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;
/**
 * How often a request that another transaction has locked is tried together with others, and how long after
 * each other: tickets that are prolonged are locked for the time of one statement.
 */
const TRIES_TOGETHER = 5;
const RETRY_MS = 20;

/**
 * Gives up requests of a face by their idempotency keys, many in one transaction: see {@link cancelRequests}.
 * One that stays locked is given up alone, where it delays no other.
 * @throws {LeaseError} `request.idempotency_reused` when the key was used on another face;
 * `grant.contended` when it stays locked.
 */
export type CancelRequest = (request: GivingUp) => Promise<CancelOutcome>;

export function createCancelRequest(store: KernelStore, face: Face): CancelRequest {
  const cancels = createCoalescer<GivingUp, Ended>({
    run: (requests) => cancelRequests(store.general, face, requests, 'skip'),
    keysOf: (request) => [keyText(request)],
    batchSizeMax: REQUESTS_PER_TRANSACTION_MAX,
    inFlightMax: TRANSACTIONS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return async (request) => {
    for (let triesCount = 0; triesCount < TRIES_TOGETHER; triesCount += 1) {
      if (triesCount > 0) await pause(store, RETRY_MS);
      const { outcome, ...end } = await cancels.submit(request);
      if (outcome !== 'locked') return answerOf(store, face, { outcome, ...end });
    }
    const [end] = await cancelRequests(store.general, face, [request], 'wait');
    return answerOf(store, face, end ?? { outcome: 'locked' });
  };
}

function answerOf(store: KernelStore, face: Face, { outcome, released, line }: Ended) {
  if (outcome === 'reused') throw new LeaseError('request.idempotency_reused');
  if (outcome === 'locked') throw new LeaseError('grant.contended');
  if (released !== undefined) {
    store.observer.release(face, 'released');
    wakeWaiters(store, released);
  }
  // The next caller in line may be first now.
  if (line !== undefined) store.hints.notify(leaseTopic(line));
  return outcome;
}
