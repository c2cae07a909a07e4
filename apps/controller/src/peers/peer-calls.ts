import type { LeaseError } from '@leasehold/keys-core';
import { peerFailure } from './peer-failure.ts';
import type { PeerReachability } from './peer-reachability.ts';

/** How a call is made. */
export interface Terms {
  readonly timeoutMs: number;
  /** Whether it changes nothing when it is carried out twice. */
  readonly isRepeatable: boolean;
  /** Of the caller; ends the call when it is gone. */
  readonly signal?: AbortSignal | undefined;
}

/** `refused`: it answered with an error. `unknown`: whether it was carried out nobody here knows. */
export type CallOutcome = 'answered' | 'refused' | 'unreachable' | 'unknown';

/** Makes one call to a datacenter, within its time, and keeps what it says of the datacenter. */
export type MakeCall = <Answer>(
  terms: Terms,
  send: (options: { readonly signal: AbortSignal }) => Promise<Answer>,
) => Promise<Answer>;

export function createCallMaker(deps: {
  readonly datacenter: string;
  readonly reachability: PeerReachability;
  readonly onCall: (outcome: CallOutcome) => void;
}): MakeCall {
  const { datacenter, reachability, onCall } = deps;
  return async ({ timeoutMs, isRepeatable, signal: caller }, send) => {
    caller?.throwIfAborted();
    const deadline = AbortSignal.timeout(timeoutMs);
    const signal = caller === undefined ? deadline : AbortSignal.any([caller, deadline]);
    try {
      const answer = await send({ signal });
      reachability.answered();
      onCall('answered');
      return answer;
    } catch (thrown) {
      // A caller that has gone says nothing of the datacenter.
      caller?.throwIfAborted();
      const { error, isAnswer } = peerFailure(thrown, { datacenter, isRepeatable });
      if (isAnswer) reachability.answered();
      else reachability.failed(error.code);
      onCall(outcomeOf(error, isAnswer));
      throw error;
    }
  };
}

function outcomeOf(error: LeaseError, isAnswer: boolean): CallOutcome {
  if (isAnswer) return 'refused';
  return error.code === 'request.outcome_unknown' ? 'unknown' : 'unreachable';
}
