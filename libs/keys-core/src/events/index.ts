/** What other slices may use. */
export { eventCursor } from './event-cursor.ts';
export { FinalMark } from './event-finality.ts';
export { EPOCH, readEventMark } from './sql/event-pages.ts';
export { type HistoryRow, readHistory, readWaiters } from './sql/history.ts';
