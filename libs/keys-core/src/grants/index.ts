/** What apps and other slices may use. */
export { createCoalescer } from './transitions/coalesce.ts';
export { inFence, isLeaseId, notHeld } from './fenced/fenced-transaction.ts';
export { createFreeRowRemover } from './free-rows.ts';
export {
  isOverstayed,
  lookAtRefusals,
  observeHandover,
  refusedOutcome,
} from './transitions/grant-outcomes.ts';
export { grantWithin, prepareGrants } from './transitions/granting.ts';
export { type RecordedRefusal, refusalIn, refusalOf } from './idempotency/recorded-refusal.ts';
export { idempotentRequest } from './idempotency/request-fingerprint.ts';
export { type CancelRequest, createCancelRequest } from './idempotency/cancelling.ts';
export {
  createPastRequestReader,
  type PastRequest,
  readGrant,
} from './idempotency/sql/past-grants.ts';
export {
  type KeyedRequest,
  keyText,
  readRequest,
  recordAnswers,
  type RequestAnswer,
} from './idempotency/sql/requests.ts';
export { createLeaseStore, type LeaseStore } from './lease-store.ts';
export {
  dropGrantedTicket,
  joinLine,
  leaveLine,
  type Leaving,
  prolongTickets,
  type Ticket,
  type TicketRequest,
} from './line/sql/line-tickets.ts';
export { createTickets, type Tickets } from './line/sql/tickets.ts';
export { observeHeld, releaseAlone, wakeWaiters } from './transitions/releasing.ts';
export { type AcquiredOrRenewed, acquireOrRenew } from './sql/acquire-or-renew.ts';
export { boundTransaction, closeBefore } from './sql/assert-held.ts';
export { grant } from './sql/grant.ts';
export { grantReleasedKey } from './sql/parts/grant-key.ts';
export { grantedColumns, type GrantedRow, grantsOf } from './sql/parts/granted-rows.ts';
export { assertReadBack, isAtHome } from './sql/at-home.ts';
export { assertNoHoldOff, guardNow, readClock } from './sql/guard.ts';
export { CALLBACK_KEPT_MS, removeOldLeaseRows } from './sql/retention/lease-retention.ts';
export { readEndedGrants } from './sql/parts/ended-grants.ts';
export { noteKeyLadder, readKeyLadders } from './sql/parts/key-ladders.ts';
export { ensureLeaseRow } from './sql/parts/ensure-lease-row.ts';
export {
  claimReapRow,
  deleteReapRow,
  endStale,
  type LeasePlace,
  listReapRows,
  type NamespaceRange,
  recordReapFailure,
  type StalePage,
} from './sql/reap-stale.ts';
export { readLeasePages, reap, type ReapedGrant } from './sql/reap.ts';
export type { ReleaseRequest } from './sql/parts/release-rows.ts';
export { renew } from './sql/renewals/renew.ts';
export { abandon, revoke, type RevokedGrant, type RevokeRequest } from './sql/revoke.ts';
export { changeRenewable, renewHeld } from './transitions/face-operations.ts';
