/**
 * A run whose database was replaced by an older backup is several histories: one of each database, which
 * begins with what was in the backup. Each is judged as any other history. What holds across them is judged
 * in `restores.ts`.
 */
import type { CommittedEvent, History, Operation, SinkWrite } from '../history.ts';
import { LOCAL } from '../history.ts';

/** What is known of one database. */
export interface EraHistory extends History {
  /** Its grants of before were in the backup, and requests of before are left out; -Infinity for none. */
  readonly sinceMs: number;
}

/** When a database was there. A reply that came before `endsFromMs` is of it or of an earlier one. */
interface Era {
  readonly events: readonly CommittedEvent[];
  readonly fromMs: number;
  readonly endsFromMs: number;
  readonly untilMs: number;
}

interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The history of each database, in their order; the history itself if there was only one. */
export function erasOf(history: History): EraHistory[] {
  const { lost } = history;
  if (lost.length === 0) return [{ ...history, sinceMs: -Infinity }];
  const elsewhere = history.events.filter(({ datacenter }) => datacenter !== LOCAL);
  const firstCalledAtMs = firstCalls(history.operations);
  const eras = [...lost, undefined].map((one, place): Era => ({
    events: one === undefined ? history.events : [...one.events, ...elsewhere],
    fromMs: lost[place - 1]?.endedAtMs ?? -Infinity,
    endsFromMs: one?.endsFromMs ?? Infinity,
    untilMs: one?.endedAtMs ?? Infinity,
  }));
  return eras.map((era, place): EraHistory => {
    const { events, fromMs, untilMs } = era;
    const isSeen = (atMs: number): boolean => atMs >= fromMs && atMs < untilMs;
    const isLast = place === lost.length;
    return {
      ...history,
      sinceMs: fromMs,
      lost: [],
      events,
      sink: lost[place]?.sink ?? history.sink,
      streams: lost[place]?.streams ?? history.streams,
      rows: isLast ? history.rows : [],
      operations: history.operations.flatMap((one) => ofEra(one, firstCalledAtMs, eras, place)),
      writes: history.writes.flatMap((one) => writesOfEra(one, era)),
      promises: history.promises.filter(({ seenAtMs }) => isSeen(seenAtMs)),
      tickets: history.tickets.filter(({ seenAtMs }) => isSeen(seenAtMs)),
    };
  });
}

/** What any of the databases has recorded; what a backup has kept counts once. */
export function everRecorded({ lost, events }: History): CommittedEvent[] {
  const all = [...lost.flatMap((one) => one.events), ...events];
  const byPlace = new Map(
    all.map((event) => [`${event.datacenter} ${String(event.id)} ${String(event.atMs)}`, event]),
  );
  return [...byPlace.values()];
}

/** When each request was sent first: a repeated one may be answered with what became of it then. */
export function firstCalls(operations: readonly Operation[]): Map<string, number> {
  const first = new Map<string, number>();
  for (const operation of operations) {
    if (operation.kind !== 'acquire') continue;
    const { holder, calledAtMs } = operation;
    first.set(holder, Math.min(calledAtMs, first.get(holder) ?? Infinity));
  }
  return first;
}

/**
 * A request as a part of one era. One that was under way when the database was replaced may have been
 * carried out by either: a grant is of the database that knows it, and of the others nobody knows.
 */
function ofEra(
  operation: Operation,
  firstCalledAtMs: ReadonlyMap<string, number>,
  eras: readonly Era[],
  place: number,
): Operation[] {
  const era = eras[place] as Era;
  const { calledAtMs, repliedAtMs, answer } = operation;
  const holder = operation.kind === 'acquire' ? operation.holder : '';
  const fromMs = Math.min(calledAtMs, firstCalledAtMs.get(holder) ?? Infinity);
  const span = { fromMs, untilMs: repliedAtMs };
  if (!mayBeIn(span, eras, place)) return [];
  if (isWithin(span, era)) return [operation];
  if (answer.outcome === 'granted' || answer.outcome === 'connected') {
    const { leaseId } = answer;
    const possible = eras.flatMap((one, index) => (mayBeIn(span, eras, index) ? [one] : []));
    const knows = possible.find(({ events }) => events.some((one) => one.leaseId === leaseId));
    return (knows ?? possible.at(-1)) === era ? [operation] : [];
  }
  return [{ ...operation, answer: { outcome: 'unknown' }, repliedAtMs: Infinity }];
}

function isWithin({ fromMs, untilMs }: Span, era: Era): boolean {
  return fromMs >= era.fromMs && untilMs < era.endsFromMs;
}

function mayBeIn({ fromMs, untilMs }: Span, eras: readonly Era[], place: number): boolean {
  const endsFromMs = eras[place - 1]?.endsFromMs ?? -Infinity;
  return untilMs >= endsFromMs && fromMs < (eras[place] as Era).untilMs;
}

/** A write whose outcome came to be known while the database was replaced is judged for neither. */
function writesOfEra(write: SinkWrite, era: Era): SinkWrite[] {
  return isWithin({ fromMs: write.begunAtMs, untilMs: write.knownAtMs }, era) ? [write] : [];
}
