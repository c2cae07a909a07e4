/** What apps and other slices may use. */
export { changesOf } from './event-changes.ts';
export { eventCursor } from './event-cursor.ts';
export { FinalMark } from './event-finality.ts';
export {
  createEventStream,
  type EventHead,
  type EventStream,
  type InTurn,
} from './event-stream.ts';
export type { EventCulprit, EventLag } from './sql/event-lag.ts';
export type { EventFilter } from './sql/event-filter.ts';
export {
  countEvents,
  type EventCountInput,
  type EventListInput,
  listEvents,
} from './sql/event-list.ts';
export { EPOCH, readEventMark } from './sql/event-pages.ts';
export { holderAt } from './holder-at.ts';
export { readFactsAround } from './sql/holder-at.ts';
export { type EventRow, type HistoryRow, readHistory, readWaiters } from './sql/history.ts';
