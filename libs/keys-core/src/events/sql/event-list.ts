/**
 * Events as a list: what happened, page by page, from either end or from an instant. A statement looks
 * through a bounded number of events, whatever the filter is, so that a filter which leaves little gets
 * no statement cancelled: a page may then hold fewer than were asked for without being the last.
 */
import { invariant, LeaseError } from '../../kernel/errors.ts';
import type { Count } from '../../kernel/face-types.ts';
import {
  boundedLogCount,
  decodeCursor,
  encodeCursor,
  invalidCursor,
} from '../../postgres/paging.ts';
import {
  type Fragment,
  fragment,
  inLastMinutes,
  joinFragments,
  type Sql,
} from '../../postgres/sql.ts';
import { eventCondition, type EventFilter, readEventBounds } from './event-pages.ts';
import type { EventRow } from './history.ts';

/** Which events are wanted. */
export interface EventCountInput extends Omit<EventFilter, 'limits'> {
  readonly leaseId?: string | undefined;
  /** ISO-8601, inclusive. */
  readonly from?: string | undefined;
  /** ISO-8601, exclusive. */
  readonly to?: string | undefined;
  /** Only what happened in the last so many minutes of the database's clock. */
  readonly windowMinutes?: number | undefined;
}

export interface EventListInput extends EventCountInput {
  /** Only what came after this event; `oldest` for all that are kept. */
  readonly afterId?: string | undefined;
  /** Newest first by default. */
  readonly direction?: 'asc' | 'desc' | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** How many events one statement looks through, and how many statements a page may take. */
const LOOKED_THROUGH_MAX = 2_000;
const LOOKS_MAX = 10;

/** How far a list has come: an event's instant as epoch milliseconds, and its id. */
interface Place {
  readonly at: number;
  readonly id: string;
}

/**
 * A page of events: in the order of their ids, or of their instants where a time is given or only
 * refused renewals are wanted. An event
 * that is written while pages are read may be missed; a caller that needs every event follows the stream.
 * @throws {LeaseError} `request.invalid`; `events.compacted` and `events.other_epoch` for `afterId`.
 */
export async function listEvents(
  sql: Sql<'reads'>,
  input: EventListInput,
  limits: readonly string[] | null,
): Promise<{ items: EventRow[]; nextCursor: string | null }> {
  const { epoch, afterId } = await startOf(sql, input.afterId, limits);
  const list = listOf(input, afterId, limits);
  let place = placeOf(input.cursor, list.order);
  const items: EventRow[] = [];
  for (let look = 0; look < LOOKS_MAX && items.length < input.limit; look++) {
    const page = await lookThrough(sql, list, place, input.limit - items.length + 1);
    const fitting = page.events.slice(0, input.limit - items.length);
    items.push(...fitting);
    const isCut = fitting.length < page.events.length;
    if (!isCut && page.lookedCount < LOOKED_THROUGH_MAX) {
      return { items: withEpoch(items, epoch), nextCursor: null };
    }
    place = isCut ? (fitting.at(-1) ?? place) : page.through;
  }
  invariant(place !== null, 'what was looked through and goes on has come to a place');
  const cursor = encodeCursor([list.order, String(place.at), place.id]);
  return { items: withEpoch(items, epoch), nextCursor: cursor };
}

/** How many events all pages have together, of the newest of their time. Index: as for the pages. */
export function countEvents(
  sql: Sql<'reads'>,
  input: EventCountInput,
  limits: readonly string[] | null,
): Promise<Count> {
  const list = listOf(input, 0n, limits);
  return boundedLogCount(sql, {
    rows: fragment`select * from ${list.source} where ${list.range} order by ${orderOf(list)}`,
    wanted: list.wanted,
  });
}

/** The present database epoch, and the id after which a list begins in it. */
async function startOf(
  sql: Sql<'reads'>,
  asked: string | undefined,
  limits: readonly string[] | null,
): Promise<{ epoch: number; afterId: bigint }> {
  const bounds = await readEventBounds(sql);
  const epoch = bounds.epoch ?? 0;
  const after = parseEventPlace(asked ?? 'oldest');
  if (after.at === 'oldest') return { epoch, afterId: 0n };
  const { oldestId } = bounds;
  const oldest = oldestId === null ? null : eventCursor(epoch, oldestId);
  // A caller that is limited to namespaces is not told how many events there are of all.
  const details = limits === null ? { oldestId: oldest } : {};
  if ((after.epoch ?? epoch) !== epoch) {
    throw new LeaseError('events.other_epoch', undefined, { details });
  }
  if (after.id < bounds.removedThroughId) {
    throw new LeaseError('events.compacted', undefined, { details });
  }
  return { epoch, afterId: after.id };
}

/** The ids are those of the event stream, which can be followed from there. */
function withEpoch(events: readonly EventRow[], epoch: number): EventRow[] {
  return events.map((event) => ({ ...event, id: eventCursor(epoch, event.id) }));
}

interface List {
  readonly order: string;
  readonly isByTime: boolean;
  readonly isDescending: boolean;
  /** What bounds the events that are looked through. */
  readonly range: Fragment;
  /** Which of them are wanted. */
  readonly wanted: Fragment;
  /** Where they are looked for, as `v`. */
  readonly source: Fragment;
}

const ALL_EVENTS = fragment`lease_event v`;
/** Refused renewals among millions of other events are found by their places. */
const REFUSED_RENEWALS = fragment`
      (
        select r.at, r.event_id as id, e.face, e.namespace, e.name, e.lease_id, e.fencing_token, e.kind,
          e.actor, e.reason, e.detail
        from refused_renewal r
        join lease_event e on e.id = r.event_id
      ) v`;

function listOf(
  input: Omit<EventListInput, 'limit'>,
  afterId: bigint,
  limits: readonly string[] | null,
): List {
  const { face, namespace, name, kinds, leaseId, from, to, windowMinutes, direction } = input;
  const isOfRefusals =
    kinds?.length === 1 && kinds[0] === 'renewal_refused' && leaseId === undefined;
  const isByTime =
    isOfRefusals || from !== undefined || to !== undefined || windowMinutes !== undefined;
  const isDescending = direction !== 'asc';
  const wanted = [eventCondition({ face, namespace, name, kinds, limits })];
  return {
    order: `${isByTime ? 'at' : 'id'} ${isDescending ? 'desc' : 'asc'}`,
    isByTime,
    isDescending,
    range: rangeOf(input, afterId),
    wanted: joinFragments(wanted, ' and '),
    source: isOfRefusals ? REFUSED_RENEWALS : ALL_EVENTS,
  };
}

function rangeOf({ from, to, windowMinutes, leaseId }: EventCountInput, afterId: bigint): Fragment {
  const range = [fragment`v.id > ${String(afterId)}::bigint`];
  if (from !== undefined) range.push(fragment`v.at >= ${from}::timestamptz`);
  if (to !== undefined) range.push(fragment`v.at < ${to}::timestamptz`);
  if (windowMinutes !== undefined) range.push(inLastMinutes(fragment`v.at`, windowMinutes));
  // An index finds the events of one grant: no others are looked through.
  if (leaseId !== undefined) range.push(fragment`v.lease_id = ${leaseId}::uuid`);
  return joinFragments(range, ' and ');
}

function placeOf(cursor: string | undefined, order: string): Place | null {
  if (cursor === undefined) return null;
  const [writtenFor, at = '', id = ''] = decodeCursor(cursor, 3);
  const isPlace = /^\d{1,15}$/u.test(at) && /^\d{1,18}$/u.test(id);
  if (writtenFor !== order || !isPlace) throw invalidCursor();
  return { at: Number(at), id };
}

/**
 * Looks through the next events. Locks nothing. Index: `lease_event_pkey`, or `lease_event_at_idx` in
 * the order of instants, or `lease_event_lease_id_idx` for one grant, or `refused_renewal_pkey`. No row at all means that there
 * are no more; a row without an id means that none of the events looked through is wanted.
 */
async function lookThrough(
  sql: Sql<'reads'>,
  list: List,
  place: Place | null,
  limit: number,
): Promise<{ events: EventRow[]; through: Place | null; lookedCount: number }> {
  const rows = await sql.$queryRaw<
    (Omit<EventRow, 'id'> & {
      id: string | null;
      lookedCount: number;
      throughAt: number;
      throughId: string;
    })[]
  >`
    with page as materialized (
      select v.id, v.at, v.face, v.namespace, v.name, v.lease_id, v.fencing_token, v.kind, v.actor,
        v.reason, v.detail
      from ${list.source}
      where ${list.range} and ${comesAfter(list, place)}
      order by ${orderOf(list)}
      limit ${LOOKED_THROUGH_MAX}
    ),
    scope as (
      select p.at, p.id, (select count(*)::int from page) as looked_count
      from page p
      order by ${orderOf({ ...list, isDescending: !list.isDescending }, 'p')}
      limit 1
    )
    select s.looked_count as "lookedCount", s.id::text as "throughId",
      round(extract(epoch from s.at) * 1000)::float8 as "throughAt",
      v.id::text as id, round(extract(epoch from v.at) * 1000)::float8 as at, v.face, v.namespace,
      v.name, v.lease_id as "leaseId", v.fencing_token::text as "fencingToken", v.kind, v.actor,
      v.reason, v.detail
    from scope s
    left join page v on ${list.wanted}
    order by ${orderOf(list)}
    limit ${limit}`;
  const [first] = rows;
  return {
    lookedCount: first?.lookedCount ?? 0,
    through: first === undefined ? null : { at: first.throughAt, id: first.throughId },
    events: rows.flatMap(({ lookedCount: _count, throughAt: _at, throughId: _id, ...event }) =>
      event.id === null ? [] : [{ ...event, id: event.id }],
    ),
  };
}

function comesAfter({ isByTime, isDescending }: List, place: Place | null): Fragment {
  if (place === null) return fragment`true`;
  const comparison = isDescending ? fragment`<` : fragment`>`;
  const id = fragment`${place.id}::bigint`;
  if (!isByTime) return fragment`v.id ${comparison} ${id}`;
  const at = fragment`to_timestamp(${place.at / 1_000}::float8)::timestamptz(3)`;
  return fragment`(v.at, v.id) ${comparison} (${at}, ${id})`;
}

function orderOf({ isByTime, isDescending }: List, alias: 'v' | 'p' = 'v'): Fragment {
  const to = isDescending ? fragment`desc` : fragment`asc`;
  const [at, id] =
    alias === 'v' ? [fragment`v.at`, fragment`v.id`] : [fragment`p.at`, fragment`p.id`];
  return isByTime ? fragment`${at} ${to}, ${id} ${to}` : fragment`${id} ${to}`;
}

/** Where a reader of the event stream goes on. */
type EventPlace =
  /** From the oldest event that is kept. */
  | { readonly at: 'oldest' }
  /** After this event; `epoch` is null where only a number was given, which is of the present one. */
  | { readonly at: 'after'; readonly epoch: number | null; readonly id: bigint };

const BIGINT_MAX = 2n ** 63n - 1n;

/**
 * The id of an event as all readers see it: its database epoch, and its number in that epoch. After a
 * restore, numbers are used again for other events.
 */
export function eventCursor(epoch: number, id: bigint | string): string {
  return `${String(epoch)}.${String(id)}`;
}

/**
 * Reads what {@link eventCursor} wrote; `oldest`, `0`, or a bare number, too.
 * @throws {LeaseError} `request.invalid` for anything else.
 */
export function parseEventPlace(text: string): EventPlace {
  if (text === 'oldest' || text === '0') return { at: 'oldest' };
  const parts = /^(?:(\d{1,9})\.)?(\d{1,19})$/u.exec(text);
  const id = BigInt(parts?.[2] ?? -1);
  if (parts === null || id > BIGINT_MAX) {
    throw new LeaseError(
      'request.invalid',
      'afterId: must be the id of an event, or "oldest" for all that are kept',
      { details: { field: 'afterId' } },
    );
  }
  return { at: 'after', epoch: parts[1] === undefined ? null : Number(parts[1]), id };
}
