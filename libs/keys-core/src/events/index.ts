/** What apps and other slices may use. */
export { changesOf } from './event-changes.ts';
export {
  countEvents,
  type EventCountInput,
  eventCursor,
  type EventListInput,
  listEvents,
} from './sql/event-list.ts';
export {
  EPOCH,
  type EventCulprit,
  type EventFilter,
  type EventLag,
  FinalMark,
  readEventMark,
} from './sql/event-pages.ts';
export {
  createEventStream,
  type EventHead,
  type EventStream,
  type InTurn,
} from './event-stream.ts';
export { createObserving, type Observed, type Observing } from './observing.ts';
export {
  type EventRow,
  type HistoryRow,
  type Holding,
  holderAt,
  readFactsAround,
  readHistory,
  readWaiters,
} from './sql/history.ts';
