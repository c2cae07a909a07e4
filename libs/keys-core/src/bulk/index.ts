/** What apps and other slices may use. */
export { removeOldBulks } from './sql/bulk-requests.ts';
export type { BulkRunner } from './bulk-runner.ts';
export { type Bulk, createBulk } from './bulk-service.ts';
export type {
  BulkFailure,
  BulkItemView,
  BulkPreview,
  BulkProgress,
  BulkRequest,
  BulkService,
} from './bulk-types.ts';
