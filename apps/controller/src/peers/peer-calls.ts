import type { LeaseError } from '@leasehold/keys-core';
import { peerFailure, type PeerFailure } from './peer-failure.ts';
import type { PeerReachability } from './peer-reachability.ts';

/** How a call is made. */
export interface Terms {
  readonly timeoutMs: number;
  /** Whether a second execution changes nothing more. */
  readonly isRepeatable: boolean;
  /** Of the caller; ends the call when the caller is gone. */
  readonly signal?: AbortSignal | undefined;
  /** It asks only for an answer: a missing one means that the datacenter is unreachable. */
  readonly isProbe?: boolean;
}

/** `refused`: it answered with an error. `unknown`: it may have been carried out. */
export type CallOutcome = 'answered' | 'refused' | 'unreachable' | 'unknown';

/** Makes one call to a datacenter, within its time, and records what it shows of the datacenter. */
export type MakeCall = <Answer>(
  terms: Terms,
  send: (options: { readonly signal: AbortSignal }) => Promise<Answer>,
) => Promise<Answer>;

export function createCallMaker(deps: {
  readonly datacenter: string;
  readonly reachability: PeerReachability;
  readonly onCall: (outcome: CallOutcome) => void;
  /** Called when a call took longer than its time, because of itself or of the datacenter. */
  readonly onLate: () => void;
}): MakeCall {
  const { datacenter, reachability, onCall } = deps;
  return async (terms, send) => {
    const { timeoutMs, isRepeatable, signal: caller } = terms;
    caller?.throwIfAborted();
    const deadline = AbortSignal.timeout(timeoutMs);
    const silence = new AbortController();
    const ends = [deadline, silence.signal, ...(caller === undefined ? [] : [caller])];
    const unwatch = reachability.onSilence(() => {
      silence.abort();
    });
    try {
      const answer = await send({ signal: AbortSignal.any(ends) });
      reachability.answered();
      onCall('answered');
      return answer;
    } catch (thrown) {
      // A caller that has gone shows nothing of the datacenter.
      caller?.throwIfAborted();
      const { error, kind } = peerFailure(thrown, { datacenter, isRepeatable });
      const isLate = deadline.aborted && kind === 'unanswered';
      onCall(outcomeOf(error, kind));
      if (kind === 'answered') reachability.answered();
      else if (kind === 'unanswered' && terms.isProbe === true) reachability.silent(error.code);
      // One slow call need not be a slow datacenter: a probe finds out.
      else if (isLate) deps.onLate();
      else if (!silence.signal.aborted) reachability.failed(error.code);
      throw error;
    } finally {
      unwatch();
    }
  };
}

function outcomeOf(error: LeaseError, kind: PeerFailure['kind']): CallOutcome {
  if (kind === 'answered') return 'refused';
  return error.code === 'request.outcome_unknown' ? 'unknown' : 'unreachable';
}
