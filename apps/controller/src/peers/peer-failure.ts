/** What a failed call to another datacenter means for the caller of this one. */
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { NEVER_CONNECTED } from '@leasehold/service-kit/controllers';
import { TRPCClientError } from '@trpc/client';

export interface PeerFailure {
  readonly error: LeaseError;
  /**
   * What it shows of the datacenter: that it is reachable, for it answered; that it refuses this one;
   * or that it did not answer.
   */
  readonly kind: 'answered' | 'refused' | 'unanswered';
}

/**
 * @param call.isRepeatable whether a second execution of the call changes nothing more: then a lost
 * answer is only a missing answer.
 */
export function peerFailure(
  thrown: unknown,
  call: { readonly datacenter: string; readonly isRepeatable: boolean },
): PeerFailure {
  const { datacenter, isRepeatable } = call;
  const answered = answerOf(thrown);
  if (answered !== undefined) return answeredFailure(answered, { datacenter, cause: thrown });
  const options = { details: { datacenter }, cause: thrown };
  if (isRepeatable || wasNeverSent(thrown)) {
    const text = `The datacenter "${datacenter}" cannot be reached.`;
    return {
      error: new LeaseError('reservation.datacenter_unreachable', text, options),
      kind: 'unanswered',
    };
  }
  const text = `The answer of the datacenter "${datacenter}" was lost; the outcome is unknown.`;
  return { error: new LeaseError('request.outcome_unknown', text, options), kind: 'unanswered' };
}

interface Answer {
  readonly code: string;
  readonly message: string;
  readonly incidentId: unknown;
  readonly details: Record<string, unknown>;
}

/** The error that the peer answered; undefined when something else went wrong. */
function answerOf(thrown: unknown): Answer | undefined {
  if (!(thrown instanceof TRPCClientError)) return undefined;
  const data: unknown = thrown.data;
  if (isObject(data)) return answerIn(data, thrown.message);
  // A refusal from before tRPC lacks some of what tRPC wants of an error, so tRPC leaves it unread.
  const body: unknown = thrown.meta?.['responseJSON'];
  const error = isObject(body) ? body['error'] : undefined;
  if (!isObject(error) || !isObject(error['data'])) return undefined;
  return answerIn(error['data'], String(error['message']));
}

function answerIn(data: Record<string, unknown>, message: string): Answer | undefined {
  const { leaseholdCode, incidentId, details } = data;
  if (typeof leaseholdCode !== 'string') return undefined;
  return { code: leaseholdCode, message, incidentId, details: isObject(details) ? details : {} };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Statuses that show the state of a datacenter, and not a mistake in the request. */
const STATES_OF_A_DATACENTER: ReadonlySet<number> = new Set([408, 429, 503]);

function answeredFailure(
  { code, message, incidentId, details }: Answer,
  { datacenter, cause }: { readonly datacenter: string; readonly cause: unknown },
): PeerFailure {
  // `auth.required`: it does not know the secret. A caller that may not do something gets another code,
  // and so is one whose request failed at a third datacenter: see `peer-router`.
  if (code === 'auth.required' || code === 'peer.refused') {
    const text = `The datacenter "${datacenter}" refused the credentials of this one.`;
    const error = new LeaseError('peer.refused', text, { details: { datacenter }, cause });
    return { error, kind: 'refused' };
  }
  if (!isKnown(code) || ERROR_CODES[code].http === 500) {
    const text = `The datacenter "${datacenter}" failed: ${code}, incident ${String(incidentId)}.`;
    return {
      error: new LeaseError('internal.error', text, { cause, from: datacenter }),
      kind: 'answered',
    };
  }
  // The error may be about a third one, and then names it.
  const isState = STATES_OF_A_DATACENTER.has(ERROR_CODES[code].http);
  const told = isState ? { datacenter, ...details } : details;
  return {
    error: new LeaseError(code, message, { details: told, cause, from: datacenter }),
    kind: 'answered',
  };
}

/** A newer controller may know codes that this one does not. */
function isKnown(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

function wasNeverSent(thrown: unknown): boolean {
  if (!(thrown instanceof TRPCClientError)) return false;
  for (let cause: unknown = thrown.cause; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && NEVER_CONNECTED.has(String(cause.code))) return true;
  }
  return false;
}
