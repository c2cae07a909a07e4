import type { CodeDraft } from './code-entry.ts';

/** Errors that any request can get. */
export const REQUEST_CODES = {
  'request.invalid': {
    http: 400,
    text: 'The request is not valid.',
    doc: 'A field is missing, unknown, of the wrong type or out of bounds. The message names it and what is allowed.',
  },
  'request.too_large': {
    http: 413,
    text: 'The request is too large.',
    doc: 'Each procedure has a bound of bytes and of values, which the message names; none is above 896 KiB. Split the call.',
  },
  'request.deadline': {
    http: 408,
    retryable: true,
    text: 'The request took too long.',
    doc: 'The database did not answer in time. The outcome may be unknown: send the request again with its idempotency key.',
  },
  'request.rate_limited': {
    http: 429,
    retryable: true,
    text: 'Too many requests.',
    doc: 'Slow down and try again after `details.retryAfterMs`. `details.limit` names the limit and `details.max` its value, if it is a limit of the caller.',
  },
  'request.outcome_unknown': {
    http: 503,
    retryable: true,
    text: 'The connection to the database was lost while the request was carried out; its outcome is unknown.',
    doc: 'Send the request again with its idempotency key: it is carried out at most once.',
  },
  'request.unreachable': {
    http: 503,
    retryable: true,
    text: 'No controller can be reached.',
    doc: 'Thrown by the client library, and answered by the console, when no connection was made. Nothing was sent. Check the address, and `leasehold doctor`.',
  },
  'client.closed': {
    http: 409,
    text: 'The client was closed.',
    doc: 'Thrown by the client library to calls that were made or still waited when `close()` was called. Nothing is held: what was granted meanwhile is given back. Make a new client.',
  },
  'request.not_found': {
    http: 404,
    text: 'There is no such procedure.',
    doc: 'Check the name of the procedure and the kind of request: queries are GET, mutations POST.',
  },
  'request.idempotency_reused': {
    http: 409,
    text: 'This idempotency key was used for another request.',
    doc: 'One key stands for one request, in all procedures. Use a new key for each new request, and the same key only to send the same request again. Nothing was done.',
  },
  'quota.exceeded': {
    http: 429,
    text: 'A quota of this token is used up.',
    doc: '`details.limit` names the limit and `details.max` its value. Waiting alone does not help: close connections or streams, release leases, send smaller batches, or give the token a higher limit (`leasehold tokens show`).',
  },
  'internal.error': {
    http: 500,
    text: 'Something went wrong inside Leasehold.',
    doc: "The `incidentId` of the answer is in the controller's log, with the cause.",
  },
} as const satisfies Record<`${'request' | 'client' | 'quota' | 'internal'}.${string}`, CodeDraft>;
