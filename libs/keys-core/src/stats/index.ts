/** What apps and other slices may use. */
export { createEventRollup } from './sql/event-rollup.ts';
export { countHeldLeases } from './sql/resource-counts.ts';
export { readSeries, removeOldBuckets, type StatsStep } from './sql/stats-buckets.ts';
export { removeOldRefusals } from './sql/refused-renewals.ts';
export { type Refusal, Refusals } from './refusals.ts';
export {
  listRefusals,
  removeRefusals,
  type RefusalListInput,
  type RefusalView,
} from './sql/refusals.ts';
export { sharedRead } from './shared-read.ts';
export { type StatsCounter, createStatsCounter } from './stats-counter.ts';
export { createStatsService } from './stats-service.ts';
export { numbersOf } from './stats-steps.ts';
export type {
  ContendedResource,
  FailingKey,
  FaceCounts,
  HealthConcern,
  StatsOverview,
  StatsPoint,
  StatsService,
} from './stats-types.ts';
