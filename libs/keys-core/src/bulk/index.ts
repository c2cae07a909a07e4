/** What apps and other slices may use. */
export {
  abortBulk,
  type BulkOrder,
  type BulkState,
  readBulk,
  removeOldBulks,
  startBulk,
} from './sql/bulk-requests.ts';
export {
  claimBulk,
  finishBulk,
  type ItemOutcome,
  letGoOfBulk,
  type OpenItem,
  prolongBulk,
  readOpenItems,
  recordItems,
} from './sql/bulk-runs.ts';
