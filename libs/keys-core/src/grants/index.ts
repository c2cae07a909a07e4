/** What apps and other slices may use. */
export { createCoalescer } from './coalesce.ts';
export { inFence, isLeaseId, notHeld } from './fenced-transaction.ts';
export { createFreeRowRemover } from './free-rows.ts';
export { assertRecurrence, windowsFrom } from './freeze-windows.ts';
export { instant, readStoppingFreezes } from './sql/freezes.ts';
export {
  isOverstayed,
  lookAtRefusals,
  observeHandover,
  prepareGrants,
  refusedOutcome,
} from './granting.ts';
export { grantWithin } from './pooling.ts';
export {
  createGroupGranter,
  type GrantAllOutcome,
  grantAllWithin,
  type GrantRequests,
  type GroupGranter,
  type RefusedAll,
} from './granting-all.ts';
export {
  type CancelRequest,
  canonicalJson,
  createCancelRequest,
  idempotentRequest,
  type RecordedRefusal,
  refusalIn,
  refusalOf,
} from './idempotency.ts';
export {
  createPastRequestReader,
  type PastRequest,
  readEndedGrants,
  readGrant,
  readGrants,
} from './sql/past-grants.ts';
export {
  createOldRequestRemover,
  firstLeaseId,
  type KeyedRequest,
  keyText,
  leaseIdsFrom,
  OLD_REQUESTS_EVERY_MS,
  readRequest,
  recordAnswers,
  type RequestAnswer,
  type RequestKey,
} from './sql/requests.ts';
export { createLeaseStore, type LeaseStore } from './lease-store.ts';
export {
  createTickets,
  dropGrantedTickets,
  joinLine,
  type Departure,
  leaveLine,
  type Leaving,
  prolongTickets,
  type Ticket,
  type TicketRequest,
  type Tickets,
} from './sql/line.ts';
export { joinLines, leaveLines, type Place, type TicketsRequest } from './sql/line-all.ts';
export {
  type EnvironmentPlace,
  type EnvironmentTicketRequest,
  countPlaces,
  joinEnvironmentLine,
  readPlace,
  readQueue,
  readRunning,
  readSuperseded,
  readSupersededGrant,
  type Supersede,
  type SupersededRow,
  supersedeWaiting,
  takeTurnsInLine,
  type QueuedRow,
} from './sql/environment-line.ts';
export { recordSuperseding, refuseIfSuperseded } from './sql/environment-superseding.ts';
export { observeHeld, releaseAlone, wakeWaiters } from './releasing.ts';
export {
  type AcquiredOrRenewed,
  acquireOrRenew,
  noteKeyLadder,
  readKeyLadders,
  renew,
} from './sql/renew.ts';
export {
  assertNoHoldOff,
  boundTransaction,
  closeBefore,
  guardNow,
  limitLockWait,
  readClock,
} from './sql/guard.ts';
export { assertReadBack, ensureLeaseRow, grant, grantReleasedKey, isAtHome } from './sql/grant.ts';
export { grantedColumns, type GrantedRow, grantsOf } from './sql/grant-rows.ts';
export { CALLBACK_KEPT_MS, removeOldLeaseRows } from './sql/retention.ts';
export {
  claimReapRow,
  deleteReapRow,
  endStale,
  type LeasePlace,
  listReapRows,
  type NamespaceRange,
  readLeasePages,
  reap,
  type ReapedGrant,
  recordReapFailure,
  type StalePage,
} from './sql/reap.ts';
export type { ReleaseRequest } from './sql/release.ts';
export { abandon, revoke, type RevokeRequest } from './sql/revoke.ts';
export { changeRenewable, downgradeHeld, renewHeld, updateHeld } from './renewing.ts';
