/** What other slices may use. */
export { createCoalescer } from './coalesce.ts';
export { inFence, isLeaseId, notHeld } from './fenced-transaction.ts';
export {
  grantWithin,
  isOverstayed,
  lookAtRefusals,
  observeHandover,
  prepareGrants,
  refusedOutcome,
} from './granting.ts';
export { idempotentRequest } from './idempotency/request-fingerprint.ts';
export { cancelRequest } from './idempotency/sql/cancel-request.ts';
export { readGrant, readPastRequest } from './idempotency/sql/past-grants.ts';
export {
  type KeyedRequest,
  type RequestAnswer,
  keyText,
  readRequest,
  recordAnswers,
} from './idempotency/sql/requests.ts';
export type { LeaseStore } from './lease-store.ts';
export {
  type Ticket,
  type TicketRequest,
  dropGrantedTicket,
  joinLine,
  leaveLine,
  prolongTickets,
} from './line/sql/line-tickets.ts';
export { dropTicket, holdTicket } from './line/sql/tickets.ts';
export { observeHeld, releaseAlone, wakeWaiters } from './releasing.ts';
export { type AcquiredOrRenewed, acquireOrRenew } from './sql/acquire-or-renew.ts';
export { boundTransaction, closeBefore } from './sql/assert-held.ts';
export { grant } from './sql/grant.ts';
export { assertNoHoldOff, assertReadBack, guardNow, readClock } from './sql/guard.ts';
export { readEndedGrants } from './sql/parts/ended-grants.ts';
export { place } from './sql/parts/place.ts';
export {
  type LeasePlace,
  type NamespaceRange,
  type StalePage,
  claimReapRow,
  deleteReapRow,
  endStale,
  listReapRows,
  recordReapFailure,
} from './sql/reap-stale.ts';
export { type ReapedGrant, readLeasePages, reap } from './sql/reap.ts';
export type { ReleaseRequest } from './sql/release.ts';
export { renew } from './sql/renew.ts';
export { type RevokeRequest, type RevokedGrant, abandon, revoke } from './sql/revoke.ts';
export { setRenewable } from './sql/set-renewable.ts';
