/** What apps and other slices may use. */
export { DURATION_PLACES, mergedCounts, percentileMs, placeOfDuration } from './histogram.ts';
export { createEventRollup, type EventRollup } from './sql/event-rollup.ts';
export {
  countHeldLeases,
  countLiveBackends,
  countResources,
  readMostWaitedFor,
  type ResourceCounts,
} from './sql/resource-counts.ts';
export {
  addToBuckets,
  readSeries,
  removeOldBuckets,
  STATS_BUCKET_MS,
  type StatsCounts,
  type StatsStep,
} from './sql/stats-buckets.ts';
