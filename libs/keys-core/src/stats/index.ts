/** What apps and other slices may use. */
export {
  createEventRollup,
  readSeries,
  removeOldBuckets,
  type StatsStep,
} from './sql/stats-buckets.ts';
export { countHeldLeases } from './sql/resource-counts.ts';
export {
  listRefusals,
  type Refusal,
  type RefusalListInput,
  Refusals,
  type RefusalView,
  removeOldRefusals,
  removeRefusals,
} from './sql/refusals.ts';
export { createStatsService, sharedRead } from './stats-service.ts';
export { type StatsCounter, createStatsCounter } from './stats-counter.ts';
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
