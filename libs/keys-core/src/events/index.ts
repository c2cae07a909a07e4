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
export {
  EPOCH,
  type EventCulprit,
  type EventFilter,
  type EventLag,
  readEventMark,
} from './sql/event-pages.ts';
export {
  countEvents,
  type EventCountInput,
  type EventListInput,
  listEvents,
} from './sql/event-list.ts';
export { holderAt } from './holder-at.ts';
export {
  type EventRow,
  type HistoryRow,
  readFactsAround,
  readHistory,
  readWaiters,
} from './sql/history.ts';
