/** Puts together what was seen of a run. */
import { readTestimony } from '../../stage/testimony.ts';
import type {
  CommittedEvent,
  FaultSeen,
  FinalRow,
  Freeze,
  History,
  LostDatabase,
  Revoke,
  Starved,
} from '../history.ts';
import type { SharedKeys } from './datacenters.ts';
import type { WorldDatabase } from './database.ts';
import { holdsOf, operationsOf, writesOf } from './diary.ts';
import type { Fleet } from './fleet.ts';
import type { Observer } from './observer.ts';
import {
  readingOf,
  readLost,
  readRecorded,
  RESOURCE,
  timedEvents,
  type Recorded,
} from './recorded.ts';
import type { StreamReader } from './streams.ts';

export interface Seen {
  readonly database: WorldDatabase;
  readonly fleet: Fleet;
  readonly observer: Observer;
  readonly readers: readonly StreamReader[];
  readonly faults: readonly FaultSeen[];
  readonly starved: readonly Starved[];
  readonly revokes: readonly Revoke[];
  readonly shared: SharedKeys | undefined;
  readonly restores: readonly Restore[];
  readonly freezes: readonly Freeze[];
  readonly beganAtMs: number;
  readonly endedAtMs: number;
}

/** A database that was replaced by a backup of itself, and where it is. */
export interface Restore extends Pick<LostDatabase, 'backupFromMs' | 'endsFromMs' | 'endedAtMs'> {
  readonly folder: string;
}

/** The history of a run whose workers have ended. */
export async function harvest(seen: Seen): Promise<History> {
  const { database, fleet, observer, shared, revokes } = seen;
  const { lost, events, sink, streams } = await readDatabases(seen);
  const rows = await database.query<FinalRow & Record<string, unknown>>(
    `select ${RESOURCE} as resource, lease_id::text as "leaseId", fencing_token::text as token,
      end_reason is not null or released_at is not null as "isEnded" from leasehold.lease`,
  );
  for (const diary of fleet.diaries) diary.read();
  return {
    beganAtMs: seen.beganAtMs,
    endedAtMs: seen.endedAtMs,
    lost,
    events: [...events, ...(shared?.events ?? [])],
    operations: [...fleet.diaries.flatMap(operationsOf), ...revokes, ...(shared?.operations ?? [])],
    holds: fleet.diaries.flatMap(holdsOf),
    sink,
    writes: fleet.diaries.flatMap(writesOf),
    promises: observer.promises,
    tickets: observer.tickets,
    idle: observer.idle,
    bare: observer.bare,
    streams,
    rows: withEvents(rows, events),
    homes: shared?.homes ?? [],
    testimony: readTestimony(fleet.testimonyFile),
    faults: seen.faults,
    steps: observer.steps,
    crashes: fleet.crashes,
    freezes: seen.freezes,
    starved: seen.starved,
  };
}

/** The database as it is, and those that it has replaced. */
async function readDatabases({
  database,
  restores,
  observer,
  readers,
}: Seen): Promise<Pick<History, 'lost' | 'events' | 'sink' | 'streams'>> {
  const name = new URL(database.url).pathname.slice(1);
  const found: Recorded[] = [];
  for (const { folder } of restores) found.push(await readLost(folder, name));
  found.push(await readRecorded((text) => database.query(text)));
  const timed = timedEvents(found, observer);
  const all = timed.map((events, place) => {
    const life = {
      fromMs: restores[place - 1]?.endedAtMs ?? -Infinity,
      untilMs: restores[place]?.endedAtMs ?? Infinity,
    };
    const streams = readers.map((reader) => readingOf(reader, events, life));
    return { events, sink: found[place]?.sink ?? [], streams };
  });
  const last = all.pop() ?? { events: [], sink: [], streams: [] };
  const lost = restores.map(({ folder: _folder, ...times }, place) => ({
    ...(all[place] ?? last),
    ...times,
  }));
  return { ...last, lost };
}

/** Rows that were written after the events were read are not judged. */
function withEvents(rows: readonly FinalRow[], events: readonly CommittedEvent[]): FinalRow[] {
  const known = new Set(events.map(({ leaseId }) => leaseId));
  return rows.filter(({ leaseId }) => known.has(leaseId));
}
