/** What apps and other slices may use. */
export { abortBulk, removeOldBulks, startBulk } from './sql/bulk-requests.ts';
export {
  claimBulk,
  finishBulk,
  type ItemOutcome,
  releaseBulkClaim,
  type OpenItem,
  prolongBulk,
  readOpenItems,
  recordItems,
} from './sql/bulk-runs.ts';
export type { BulkRunner } from './bulk-runner.ts';
export { type Bulk, createBulk } from './bulk-service.ts';
export type { BulkFailure, BulkProgress, BulkRequest, BulkService } from './bulk-types.ts';
