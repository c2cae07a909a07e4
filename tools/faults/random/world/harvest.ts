/** Puts together what was seen of a run. */
import { readTestimony } from '../../stage/testimony.ts';
import {
  LOCAL,
  type CommittedEvent,
  type FaultSeen,
  type FinalRow,
  type History,
  type Revoke,
  type StreamRead,
} from '../history.ts';
import type { SharedKeys } from './datacenters.ts';
import type { WorldDatabase } from './database.ts';
import { holdsOf, operationsOf, writesOf } from './diary.ts';
import type { Fleet } from './fleet.ts';
import type { Observer } from './observer.ts';
import type { StreamReader } from './streams.ts';
import { SINK } from './workers/settings.ts';

export interface Seen {
  readonly database: WorldDatabase;
  readonly fleet: Fleet;
  readonly observer: Observer;
  readonly readers: readonly StreamReader[];
  readonly faults: readonly FaultSeen[];
  readonly revokes: readonly Revoke[];
  readonly shared: SharedKeys | undefined;
  readonly beganAtMs: number;
  readonly endedAtMs: number;
}

const RESOURCE = `face || ' ' || namespace || '/' || name`;

/** The history of a run whose workers have ended. */
export async function harvest(seen: Seen): Promise<History> {
  const { database, fleet, observer, readers, shared, revokes } = seen;
  const events = await readEvents(seen);
  const rows = await database.query<FinalRow & Record<string, unknown>>(
    `select ${RESOURCE} as resource, lease_id::text as "leaseId", fencing_token::text as token,
      end_reason is not null or released_at is not null as "isEnded" from leasehold.lease`,
  );
  const [sink] = await database.query<{ entries: string[] }>(`select entries from ${SINK}`);
  for (const diary of fleet.diaries) diary.read();
  return {
    beganAtMs: seen.beganAtMs,
    endedAtMs: seen.endedAtMs,
    events: [...events, ...(shared?.events ?? [])],
    operations: [...fleet.diaries.flatMap(operationsOf), ...revokes, ...(shared?.operations ?? [])],
    holds: fleet.diaries.flatMap(holdsOf),
    sink: sink?.entries ?? [],
    writes: fleet.diaries.flatMap(writesOf),
    promises: observer.promises,
    tickets: observer.tickets,
    idle: observer.idle,
    bare: observer.bare,
    streams: readers.map((reader) => readingOf(reader, events)),
    rows: withEvents(rows, events),
    homes: shared?.homes ?? [],
    testimony: readTestimony(fleet.testimonyFile),
    faults: seen.faults,
  };
}

async function readEvents({ database, observer }: Seen): Promise<CommittedEvent[]> {
  const rows = await database.query<CommittedEvent & { databaseMs: number }>(
    `select id::int as id, extract(epoch from at)::float8 * 1000 as "databaseMs",
      '${LOCAL}' as datacenter, ${RESOURCE} as resource, lease_id::text as "leaseId",
      fencing_token::text as token, coalesce(reason, '') as reason,
      case when kind = 'revoked' and detail ->> 'mode' = 'graceful' then 'revoking' else kind end as kind,
      coalesce(detail ->> 'holder', '') as holder
     from leasehold.lease_event order by id`,
  );
  return rows.map(({ databaseMs, ...event }) => ({
    ...event,
    atMs: observer.machineTimeOf(event.id, databaseMs),
  }));
}

/** Rows that were written after the events were read are not judged. */
function withEvents(rows: readonly FinalRow[], events: readonly CommittedEvent[]): FinalRow[] {
  const known = new Set(events.map(({ leaseId }) => leaseId));
  return rows.filter(({ leaseId }) => known.has(leaseId));
}

/** A reader may not have received the last events yet. */
function readingOf({ name, ids }: StreamReader, events: readonly CommittedEvent[]): StreamRead {
  const throughId = ids.at(-1) ?? 0;
  const known = events.at(-1)?.id ?? 0;
  const read = ids.filter((id) => id <= known);
  return { reader: name, ids: read, fromId: events[0]?.id ?? 0, throughId };
}
