import pg from 'pg';
import { onTestFinished } from 'vitest';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { createEventStream, type EventStream } from '../events/event-stream.ts';
import type { EventFilter } from '../events/sql/event-pages.ts';
import type { EventRow } from '../events/sql/history.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Kernel } from './kernel-fixture.ts';

/** The stream of a kernel, closed when the test ends. */
export function openStream(store: Pick<Store, 'general' | 'reads' | 'clock'>): EventStream {
  const stream = createEventStream({
    store,
    onError: (error) => {
      // On a busy machine a statement is cancelled now and then; the stream retries.
      if (databaseFailureOf(error) === 'other') throw error;
    },
  });
  onTestFinished(() => stream.close());
  return stream;
}

/** Everything that a reader has received so far. */
export interface Read {
  readonly events: EventRow[];
  /** The numbers of the events, without the database epoch. */
  ids(): number[];
  /** Resolves with the error that it ended with, or undefined. */
  readonly ended: Promise<unknown>;
  stop(): void;
}

/** Reads a stream to its end or the test's, as fast as it comes. */
export async function readStream(
  stream: EventStream,
  from: { afterId?: string | undefined; filter?: Partial<EventFilter> } = {},
): Promise<Read> {
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const filter = { limits: null, ...from.filter };
  const source = await stream.open({ afterId: from.afterId, filter }, stopping.signal);
  const events: EventRow[] = [];
  const drain = async (): Promise<unknown> => {
    try {
      for await (const event of source) events.push(event);
      return undefined;
    } catch (error) {
      return error;
    }
  };
  return {
    events,
    ids: () => events.map(({ id }) => numberOf(id)),
    ended: drain(),
    stop: () => {
      stopping.abort();
    },
  };
}

/** The number of an event in its database epoch. */
export function numberOf(id: string): number {
  return Number(id.slice(id.indexOf('.') + 1));
}

/** A connection of its own, on which a test opens transactions. */
export async function openWriter(kernel: Kernel): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: kernel.databaseUrl,
    application_name: 'test writer',
  });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Writes events without any transition, all in one statement. @returns their ids. */
export async function insertEvents(
  client: pg.Client,
  count: number,
  change: { namespace?: string; name?: string; kind?: string; face?: string } = {},
): Promise<number[]> {
  const { namespace = 'test', name = 'thing', kind = 'granted', face = 'lease' } = change;
  const { rows } = await client.query<{ id: string }>(
    `insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
     select $2, $3, $4, gen_random_uuid(), n, $5, 'test' from generate_series(1, $1::int) n
     returning id`,
    [count, face, namespace, name, kind],
  );
  return rows.map(({ id }) => Number(id)).sort((a, b) => a - b);
}
