/** What a failed call to another datacenter comes to for the caller of this one. */
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { TRPCClientError } from '@trpc/client';

/** What says that no connection came about, so that nothing was sent. */
const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

export interface PeerFailure {
  readonly error: LeaseError;
  /** Whether the datacenter itself answered so: then it can be reached. */
  readonly isAnswer: boolean;
}

/**
 * @param call.isRepeatable a call that changes nothing when it is carried out twice: that its answer
 * was lost is no more than that nothing was heard.
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
      isAnswer: false,
    };
  }
  const text = `The connection to the datacenter "${datacenter}" broke while the request was carried out; its outcome is unknown.`;
  return { error: new LeaseError('request.outcome_unknown', text, options), isAnswer: false };
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
  if (typeof data !== 'object' || data === null || !('leaseholdCode' in data)) return undefined;
  const { leaseholdCode, incidentId, details } = data as Record<string, unknown>;
  const isObject = typeof details === 'object' && details !== null;
  return {
    code: String(leaseholdCode),
    message: thrown.message,
    incidentId,
    details: isObject ? (details as Record<string, unknown>) : {},
  };
}

function answeredFailure(
  { code, message, incidentId, details }: Answer,
  { datacenter, cause }: { readonly datacenter: string; readonly cause: unknown },
): PeerFailure {
  // `auth.required`: it does not know the secret. A caller that may not do something is told otherwise.
  if (code === 'auth.required' || code === 'peer.refused') {
    const text = `The datacenter "${datacenter}" refused the credentials of this one.`;
    const error = new LeaseError('peer.refused', text, { details: { datacenter }, cause });
    return { error, isAnswer: false };
  }
  if (!isKnown(code) || ERROR_CODES[code].http === 500) {
    const text = `The datacenter "${datacenter}" failed: ${code}, incident ${String(incidentId)}.`;
    return { error: new LeaseError('internal.error', text, { cause }), isAnswer: true };
  }
  return { error: new LeaseError(code, message, { details, cause }), isAnswer: true };
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
