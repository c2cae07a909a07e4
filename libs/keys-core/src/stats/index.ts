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
export { sharedRead } from './shared-read.ts';
export { type StatsCounter, createStatsCounter } from './stats-counter.ts';
export { createStatsService } from './stats-service.ts';
export { numbersOf } from './stats-steps.ts';
export type {
  ContendedResource,
  FaceCounts,
  StatsOverview,
  StatsPoint,
  StatsService,
} from './stats-types.ts';
