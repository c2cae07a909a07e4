/** What databases have recorded, as they are read after a run. */
import { startEmbeddedPostgres } from '@leasehold/keys-core/postgres';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { LOCAL, type CommittedEvent, type StreamRead } from '../history.ts';
import type { Observer } from './observer.ts';
import type { StreamReader } from './streams.ts';
import { SINK } from './workers/settings.ts';

export const RESOURCE = `face || ' ' || namespace || '/' || name`;

/** An event with its time by the database's clock. */
type Row = Omit<CommittedEvent, 'atMs'> & { readonly databaseMs: number };

export interface Recorded {
  readonly rows: readonly Row[];
  readonly sink: readonly string[];
}

type Query = <R extends pg.QueryResultRow>(text: string) => Promise<R[]>;

export async function readRecorded(query: Query): Promise<Recorded> {
  const rows = await query<Row & pg.QueryResultRow>(
    `select id::int as id, extract(epoch from at)::float8 * 1000 as "databaseMs",
      '${LOCAL}' as datacenter, ${RESOURCE} as resource, lease_id::text as "leaseId",
      fencing_token::text as token, coalesce(reason, '') as reason,
      case when kind = 'revoked' and detail ->> 'mode' = 'graceful' then 'revoking' else kind end as kind,
      coalesce(detail ->> 'holder', '') as holder
     from leasehold.lease_event order by id`,
  );
  const [sink] = await query<{ entries: string[] }>(`select entries from ${SINK}`);
  return { rows, sink: sink?.entries ?? [] };
}

/** Starts a database that was killed and replaced, and reads it. */
export async function readLost(folder: string, database: string): Promise<Recorded> {
  const postgres = await startEmbeddedPostgres({ dataDir: folder });
  const client = new pg.Client(connectionOf(postgres.url(database)));
  try {
    await client.connect();
    return await readRecorded(async <R extends pg.QueryResultRow>(text: string) => {
      return (await client.query<R>(text)).rows;
    });
  } finally {
    await client.end();
    await postgres.stop();
  }
}

/**
 * Puts the events of databases that followed each other into the machine's clock. What a backup has kept
 * is the same event in both.
 */
export function timedEvents(
  databases: readonly Recorded[],
  observer: Observer,
): CommittedEvent[][] {
  const timed: CommittedEvent[][] = [];
  let former = new Map<number, { readonly row: Row; readonly event: CommittedEvent }>();
  for (const [place, { rows }] of databases.entries()) {
    const events = rows.map((row) => {
      const { databaseMs, ...event } = row;
      const kept = former.get(row.id);
      const isKept = kept?.row.leaseId === row.leaseId && kept.row.databaseMs === databaseMs;
      const atMs = isKept ? kept.event.atMs : observer.machineTimeOf(place, row.id, databaseMs);
      return { row, event: { ...event, atMs } };
    });
    timed.push(events.map(({ event }) => event));
    former = new Map(events.map((one) => [one.row.id, one]));
  }
  return timed;
}

/** When a database was there. */
export interface Life {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** What a reader received of a database: of the last epoch that it met first while that one was there. */
export function readingOf(
  { name, received }: StreamReader,
  events: readonly CommittedEvent[],
  { fromMs, untilMs }: Life,
): StreamRead {
  const metAtMs = new Map<string, number>();
  for (const { epoch, atMs } of received) if (!metAtMs.has(epoch)) metAtMs.set(epoch, atMs);
  const epoch = [...metAtMs].findLast(([, atMs]) => atMs >= fromMs && atMs < untilMs)?.[0];
  const ids = received.filter((one) => one.epoch === epoch).map(({ id }) => id);
  // What was written after the events were read is not judged.
  const known = events.at(-1)?.id ?? 0;
  const isOver = untilMs < Infinity;
  return {
    reader: name,
    ids: isOver ? ids : ids.filter((id) => id <= known),
    fromId: events[0]?.id ?? 0,
    throughId: ids.at(-1) ?? 0,
  };
}
