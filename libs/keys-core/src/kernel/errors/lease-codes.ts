import type { CodeDraft } from './code-entry.ts';

/** Grants, leases and environments. */
export const LEASE_CODES = {
  'grant.hold_off': {
    http: 503,
    retryable: true,
    text: 'New grants are held off: the database was restored or failed over.',
    doc: 'With `details.reason` `restored`, holders may still act on grants that the restore has lost; renewals continue. With `clock`, this key has expired by a database clock that was not watched or has jumped, and `details.holder` may still act. New grants begin after `details.remainingMs`.',
  },
  'grant.contended': {
    http: 409,
    retryable: true,
    text: 'The resource is being changed by others.',
    doc: 'Three tries found the row locked or changed. Try again.',
  },
  'lease.not_found': {
    http: 404,
    text: 'There is no such lease.',
    doc: 'It never existed, is a key or an environment, or belongs to another caller.',
  },
  'lease.ttl_out_of_range': {
    http: 400,
    text: 'The TTL is out of range.',
    doc: 'TTLs go from 1 s to 24 h.',
  },
  'lease.held': {
    http: 409,
    retryable: true,
    text: 'Somebody else holds this lease.',
    doc: 'Thrown by the client library; on the wire it is the outcome `held`. `details` has the holder, the start and the remaining time.',
  },
  'lease.wait_timeout': {
    http: 409,
    retryable: true,
    text: 'The lease did not become free in time.',
    doc: 'Thrown by the client library after `waitMs` in line. `details` has the holder. Wait longer, or try again later.',
  },
  'lease.wait_cancelled': {
    http: 409,
    text: 'The wait for this lease was cancelled.',
    doc: 'The caller cancelled it, or its connection was lost. The request is never granted; send a new one with another idempotency key.',
  },
  'lease.lost': {
    http: 409,
    text: 'The lease was lost.',
    doc: 'Thrown to holders by the client library and by the coordinator. It is also the reason of their aborted signal. `details.reason` is expired, superseded, revoked, released or unreachable. Stop the work: another holder may have the lease.',
  },
  'lease.unconfirmed': {
    http: 409,
    retryable: true,
    text: 'Lease ownership is unconfirmed.',
    doc: 'Thrown by `assertHeld()` of the client library after the process was stopped or blocked for more than a second. The client is already asking the controller; `await lease.confirm()` waits for the answer.',
  },
  'lease.not_held': {
    http: 409,
    text: 'The grant is not in force.',
    doc: 'The grant has expired, or was released, revoked or taken over. The fenced transaction was rolled back.',
  },
  'lease.self_deadlock': {
    http: 409,
    text: 'This work holds the lease that it asks for.',
    doc: 'Leases are not recursive: waiting would end only when the lease is lost. Pass the lease on instead of acquiring it again.',
  },
  'lease.in_hook': {
    http: 500,
    text: 'A hook may not call the coordinator.',
    doc: 'Hooks get the transaction and nothing else: a call from within would wait for a row that its own transaction has locked.',
  },
  'environment.vetoed': {
    http: 409,
    text: 'The environment may not be used now.',
    doc: '`details.reason` is the reason from the veto check. Nothing was recorded.',
  },
} as const satisfies Record<`${'grant' | 'lease' | 'environment'}.${string}`, CodeDraft>;
