import {
  ASKED_EVENT_KINDS,
  type EventKind,
  type EventView,
  type HolderAt,
  type HolderAtGrant,
} from '../../kernel/face-types.ts';
import { SLOT_MODES, type SlotMode } from '../../kernel/lease.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import {
  asParameters,
  C,
  type Fragment,
  fragment,
  grantRows,
  IS_IN_FORCE,
  isFound,
  isoOf,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';

/** An event as a history shows it; `at` is epoch milliseconds. */
export interface EventRow extends Resource, Omit<EventView, 'at' | 'datacenter' | 'face'> {
  readonly at: number;
}

/** An event, and the present database epoch, in which its id is valid. */
export interface HistoryRow extends EventRow {
  readonly epoch: number;
}

/**
 * What happened to a resource, newest first, without what a reader has to name: a client of the version
 * before does not know it. Index: `lease_event_resource_idx`.
 */
export async function readHistory(
  sql: Sql<'reads'>,
  resource: Resource,
  page: { readonly beforeId: string | null; readonly limit: number },
): Promise<HistoryRow[]> {
  return sql.$queryRaw<HistoryRow[]>`
    select v.id::text as id, coalesce((select e.epoch from database_epoch e), 0) as epoch, extract(epoch from v.at)::float8 * 1000 as at,
      v.face, v.namespace, v.name, v.lease_id as "leaseId", v.fencing_token::text as "fencingToken",
      v.kind, v.actor, v.reason, v.detail
    from lease_event v
    where v.face = ${resource.face} ${C} and v.namespace = ${resource.namespace} ${C}
      and v.name = ${resource.name} ${C}
      and v.kind <> all(${[...ASKED_EVENT_KINDS]}::text[])
      and (${page.beforeId}::bigint is null or v.id < ${page.beforeId}::bigint)
    order by v.id desc
    limit ${page.limit}`;
}

/** Who holds a resource, and since when; of several who hold it at once the one that has held it longest. */
export interface Holding {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly metadata: unknown;
  /** ISO-8601. */
  readonly since: string;
  /** Who else holds it; only of what several may hold at once. */
  readonly sharing?: {
    readonly mode: SlotMode;
    readonly holderCount: number;
    /** The first of the others, in the order in which they were granted. */
    readonly others: readonly OtherHolding[];
  };
}

export interface OtherHolding extends Omit<Holding, 'metadata' | 'sharing'> {
  readonly mode: SlotMode;
}

/** How many of those who hold a resource at once are shown, and up to how many are counted. */
const HOLDERS_SHOWN_MAX = 10;
const HOLDERS_COUNTED_MAX = 1_000;

interface HoldingRow extends Omit<Holding, 'since' | 'sharing'> {
  readonly place: number;
  readonly since: number;
  readonly mode: SlotMode | null;
  readonly holderCount: number;
}

/**
 * Who holds each of these resources, in their order; null while nobody does. A plain read by the primary key.
 */
export async function readHoldings(
  sql: Sql<'general'>,
  resources: readonly Resource[],
): Promise<(Holding | null)[]> {
  const asked = {
    face: fragment`a.face`,
    namespace: fragment`a.namespace`,
    name: fragment`a.name`,
  };
  const rows = await sql.$queryRaw<HoldingRow[]>`
    with asked as materialized (
      select a.face ${C} as face, a.namespace ${C} as namespace, a.name ${C} as name, a.place
      from unnest(
        ${resources.map(({ face }) => face)}::text[],
        ${resources.map(({ namespace }) => namespace)}::text[],
        ${resources.map(({ name }) => name)}::text[]
      ) with ordinality as a (face, namespace, name, place)
    )
    select a.place::int as place, h.lease_id as "leaseId", h.fencing_token::text as "fencingToken",
      h.holder, case when h.nth = 1 then h.metadata end as metadata, h.mode,
      extract(epoch from h.granted_at)::float8 * 1000 as since, h.count::int as "holderCount"
    from asked a
    cross join lateral (
      select h.*, count(*) over () as count,
        row_number() over (order by h.granted_at, h.fencing_token) as nth
      from (${grantRows(asked, { where: IS_IN_FORCE, limit: HOLDERS_COUNTED_MAX })}) h
      order by nth
      limit ${HOLDERS_SHOWN_MAX}
    ) h
    order by a.place, h.nth`;
  const found = resources.map((): HoldingRow[] => []);
  for (const row of rows) found[row.place - 1]?.push(row);
  return found.map(holdingOf);
}

function holdingOf([first, ...rows]: readonly HoldingRow[]): Holding | null {
  if (first === undefined) return null;
  const { leaseId, fencingToken, holder, metadata, mode, holderCount } = first;
  const holding = { leaseId, fencingToken, holder, metadata, since: isoOf(first.since) };
  if (mode === null) return holding;
  const others = rows.flatMap(({ leaseId, fencingToken, holder, since, ...row }) =>
    row.mode === null ? [] : { leaseId, fencingToken, holder, since: isoOf(since), mode: row.mode },
  );
  return { ...holding, sharing: { mode, holderCount, others } };
}

/** An event of one resource; `at` is epoch milliseconds. */
interface FactAt {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly kind: EventKind;
  readonly at: number;
  readonly actor: string;
  readonly reason: string | null;
  readonly detail: unknown;
}

/** The row of a resource's newest grant, as it is now. */
interface NewestGrant {
  readonly leaseId: string;
  /** The grant's own: a revocation by force has raised that of the row by one. */
  readonly fencingToken: string;
  readonly holder: string;
  /** What an environment is used for. */
  readonly action: string | null;
  readonly comment: string | null;
  readonly mode: SlotMode | null;
  readonly grantedAt: number;
  readonly expiresAt: number;
  /** Whether the row says by itself that the grant is over: it was ended, or has expired. */
  readonly isOver: boolean;
}

/** What is known of a resource around a moment. */
interface FactsAround {
  readonly now: number;
  readonly at: number;
  /** The newest grant, if it began before the moment. */
  readonly newest: NewestGrant | null;
  /** The last event before the moment that began a grant. */
  readonly begun: FactAt | null;
  /** The event that ended that grant, also after the moment. */
  readonly ended: FactAt | null;
  /** The last event before the moment that blocked or allowed the renewal of that grant. */
  readonly blocked: FactAt | null;
  /** The first event after the moment that shows who held the resource before it. */
  readonly next: FactAt | null;
  /** The oldest event that is kept, of any resource. */
  readonly oldestAt: number | null;
  /** Whether several may hold it at once by now: see {@link mayHaveSeveral}. */
  readonly isPool: boolean;
}

/** Of the events after the moment, the number among which the one with the smallest id is looked for. */
const DISORDER_MAX = 1_000;

/** The row `n` of the newest grant. */
const NEWEST = fragment`jsonb_build_object(
      'leaseId', n.lease_id, 'holder', n.holder, 'comment', n.comment,
      'action', case when n.face = 'environment' then n.tag end, 'mode', n.mode,
      'fencingToken', (n.fencing_token - case when n.end_reason = 'revoked' then 1 else 0 end)::text,
      'grantedAt', extract(epoch from n.granted_at)::float8 * 1000,
      'expiresAt', extract(epoch from n.expires_at)::float8 * 1000,
      'isOver', not lease_unexpired(n.released_at, n.end_reason, n.expires_at)
    )`;

/** Whether the event `e` ended its grant. */
const IS_END = fragment`(
      e.kind in ('released', 'failed', 'expired', 'removed')
      or (e.kind = 'revoked' and e.detail ->> 'mode' = 'force')
    )`;

/** Whether the event `e` blocked or allowed the renewal of its grant. */
const IS_OF_RENEWAL = fragment`(
      e.kind in ('renewal_blocked', 'renewal_allowed')
      or (e.kind = 'revoked' and e.detail ->> 'mode' = 'graceful')
    )`;

/**
 * Whether the event `e` began the grant in question. It may be later than the moment, although its grant is not: a
 * grant and its event have times of their own, which round to different milliseconds.
 */
const IS_BEGINNING_OF_LAST = fragment`(
      e.kind in ('granted', 'taken_over')
      and e.lease_id is not distinct from (select l.lease_id from last l)
    )`;

/** The event `e`. */
const FACT = fragment`jsonb_build_object(
      'leaseId', e.lease_id, 'fencingToken', e.fencing_token::text, 'kind', e.kind,
      'at', extract(epoch from e.at)::float8 * 1000, 'actor', e.actor, 'reason', e.reason, 'detail', e.detail
    )`;

/**
 * What happened to a resource around a moment. Reads a handful of rows however many events the resource or
 * the log has: the moment is found in the log by its time, and the resource's events before it by their ids.
 * The ids are the order in which things happened; where the database's clock was set back, a moment that it
 * shows twice is the first of the two.
 *
 * Indexes: `lease_event_at_idx`, `lease_event_resource_idx`, `lease_event_lease_id_idx`, `lease_pkey`.
 */
export async function readFactsAround(
  sql: Sql<'reads'>,
  resource: Resource,
  atIso: string,
): Promise<FactsAround> {
  const isOf = isEventOf(resource);
  const isNamed = fragment`l.face = ${resource.face} ${C} and l.namespace = ${resource.namespace} ${C}
        and l.name = ${resource.name} ${C}`;
  const rows = await sql.$queryRaw<FactsAround[]>`
    with ${askedMoment(atIso)},
    begun as materialized (
      select e.*
      from lease_event e
      where ${isOf} and e.id < (select f.id from after f) and e.at <= (select a.at from asked a)
        and e.kind in ('granted', 'taken_over')
      order by e.id desc
      limit 1
    ),
    newest as materialized (
      select l.*
      from lease l
      where ${isNamed} and l.pool is null and l.granted_at <= (select a.at from asked a)
      union all
      -- Of what several may hold at once the row is one of many.
      select l.*
      from lease l
      where l.pool is not null and l.lease_id = (select b.lease_id from begun b)
    ),
    last as materialized (
      select coalesce((select n.lease_id from newest n), (select b.lease_id from begun b)) as lease_id
    )
    select extract(epoch from clock_timestamp())::float8 * 1000 as now,
      extract(epoch from a.at)::float8 * 1000 as at,
      (select ${NEWEST} from newest n) as newest,
      (select ${FACT} from begun e) as begun,
      (
        select ${FACT}
        from lease_event e
        where e.lease_id = (select l.lease_id from last l) and ${IS_END}
        order by e.id
        limit 1
      ) as ended,
      (
        select ${FACT}
        from lease_event e
        where e.lease_id = (select l.lease_id from last l) and e.at <= a.at and ${IS_OF_RENEWAL}
        order by e.id desc
        limit 1
      ) as blocked,
      (
        select ${FACT}
        from lease_event e
        where ${isOf} and e.id >= (select f.id from after f) and e.at > a.at
          and e.kind <> all (${[...ASKED_EVENT_KINDS]}::text[]) and not ${IS_BEGINNING_OF_LAST}
        order by e.id
        limit 1
      ) as next,
      (
        select extract(epoch from e.at)::float8 * 1000 from lease_event e order by e.at limit 1
      ) as "oldestAt",
      ${isFound(fragment`select true from lease l where ${isNamed} and l.pool is not null`)} as "isPool"
    from asked a`;
  return onlyRow(rows);
}

function isEventOf({ face, namespace, name }: Resource): Fragment {
  return fragment`e.face = ${face} ${C} and e.namespace = ${namespace} ${C} and e.name = ${name} ${C}`;
}

/** The moment as `asked`, and the first event `after` it. */
function askedMoment(atIso: string): Fragment {
  return fragment`
    asked as materialized (
      select ${atIso}::timestamptz as at
    ),
    after as materialized (
      select coalesce(min(x.id), 9223372036854775807) as id
      from (
        select e.id
        from lease_event e
        where e.at > (select a.at from asked a)
        order by e.at
        limit ${DISORDER_MAX}
      ) x
    )`;
}

/** So many grants that began before the moment, and so many that ended after it, are looked at. */
const GRANTS_SEEN_MAX = 1_000;

type GrantFacts = Pick<FactsAround, 'newest' | 'begun' | 'ended' | 'blocked'>;

/** The grants of a moment. */
interface GrantsAround {
  /** In the order in which they were granted. */
  readonly grants: readonly GrantFacts[];
  /** False where so many began before it, or ended after it, that others may have lasted then. */
  readonly isComplete: boolean;
}

/** Of the grants `known`, those that lasted at the moment `asked`, with their facts. */
const LASTING = fragment`
      select k.lease_id, b.fact as begun, d.fact as ended, n.fact as newest,
        coalesce(n.granted_at, b.at) as since
      from known k
      cross join asked a
      left join lateral (
        select ${FACT} as fact, e.at from lease_event e
        where e.lease_id = k.lease_id and e.kind in ('granted', 'taken_over')
        order by e.id
        limit 1
      ) b on true
      left join lateral (
        select ${FACT} as fact, e.at from lease_event e
        where e.lease_id = k.lease_id and ${IS_END}
        order by e.id
        limit 1
      ) d on true
      left join lateral (
        select ${NEWEST} as fact, n.granted_at, n.expires_at,
          lease_unexpired(n.released_at, n.end_reason, n.expires_at) as is_in_force
        from lease n
        where n.lease_id = k.lease_id and n.granted_at <= a.at
        limit 1
      ) n on true
      where (n.granted_at is not null or b.at is null or b.at <= a.at)
        and case
          when d.at is not null then d.at > a.at
          else n.is_in_force or n.expires_at > a.at
        end`;

/**
 * The grants of a resource that lasted at a moment, of what several may hold at once: those that rows carry now, and
 * of those that have ended the ones that began last before the moment or ended first after it.
 *
 * Reads {@link GRANTS_SEEN_MAX} of each at most. Indexes: as {@link readFactsAround}, and `lease_lease_id_key`.
 */
export async function readGrantsAround(
  sql: Sql<'reads'>,
  resource: Resource,
  atIso: string,
): Promise<GrantsAround> {
  const isOf = isEventOf(resource);
  const isBefore = fragment`l.granted_at <= (select a.at from asked a)`;
  const rows = await sql.$queryRaw<GrantsAround[]>`
    with ${askedMoment(atIso)},
    begun as materialized (
      select e.lease_id from lease_event e
      where ${isOf} and e.id < (select f.id from after f) and e.at <= (select a.at from asked a)
        and e.kind in ('granted', 'taken_over')
      order by e.id desc
      limit ${GRANTS_SEEN_MAX}
    ),
    ended as materialized (
      select e.lease_id from lease_event e
      where ${isOf} and e.id >= (select f.id from after f) and ${IS_END}
      order by e.id
      limit ${GRANTS_SEEN_MAX}
    ),
    known as (
      select b.lease_id from begun b
      union
      select d.lease_id from ended d
      union
      select l.lease_id from (${grantRows(asParameters(resource), { where: isBefore, limit: GRANTS_SEEN_MAX })}) l
    ),
    lasting as materialized (${LASTING})
    select (select count(*) from begun) < ${GRANTS_SEEN_MAX}::int
        and (select count(*) from ended) < ${GRANTS_SEEN_MAX}::int as "isComplete",
      coalesce(jsonb_agg(jsonb_build_object(
        'begun', g.begun, 'ended', g.ended, 'newest', g.newest, 'blocked', (
          select ${FACT} from lease_event e
          where e.lease_id = g.lease_id and e.at <= (select a.at from asked a) and ${IS_OF_RENEWAL}
          order by e.id desc
          limit 1
        )
      ) order by g.since nulls first, g.lease_id), '[]') as grants
    from lasting g`;
  return onlyRow(rows);
}

// Who held a resource at a moment, from what is known of it around that moment.

const ENDS: readonly EventKind[] = ['released', 'failed', 'expired', 'removed'];

type Answer = Pick<HolderAt, 'phase' | 'grant'>;

/** Whether several could hold it at the moment, as far as its row and the last grant before show. */
export function mayHaveSeveral({ isPool, begun }: FactsAround): boolean {
  return isPool || modeIn(begun?.detail) !== null;
}

/** How many grants of a moment are told. */
const HOLDERS_TOLD_MAX = 100;

/**
 * The answer for a moment of what several could hold at once, who are `held`: the one that had held it longest, and all.
 * While nobody did, or one that held it as what one holds at a time, the answer is {@link holderAt}'s.
 */
export function holdersAt(
  face: Face,
  facts: FactsAround,
  { grants, isComplete }: GrantsAround,
): Answer & Pick<HolderAt, 'sharing'> {
  const answers = grants.map((of) => {
    // Of a grant whose beginning is not kept, its end tells.
    const next = of.begun === null && of.newest === null ? of.ended : null;
    return holderAt(face, { ...facts, ...of, next });
  });
  const holders = answers.flatMap(({ grant }) => grant ?? []);
  const sharing = {
    holderCount: holders.length,
    isComplete,
    holders: holders.slice(0, HOLDERS_TOLD_MAX),
  };
  const [first] = holders;
  if (first === undefined) {
    const wasShared = modeIn(facts.begun?.detail) !== null;
    return { ...holderAt(face, facts), sharing: wasShared ? sharing : null };
  }
  const isHeld = answers.some(({ phase }) => phase === 'held');
  const isAlone = holders.every(({ mode, holder }) => mode === null && holder !== null);
  return {
    phase: isHeld ? 'held' : 'expiring',
    grant: first,
    sharing: isAlone ? null : sharing,
  };
}

/**
 * The answer for the moment of the facts. A grant that expired was over before its event, which the next
 * caller or the reaper wrote; renewals are not kept, so until that event it counts as held, and its end says
 * `expired`. What began before the oldest event that is kept is known only while it lasts, or by what ended it.
 */
export function holderAt(face: Face, facts: FactsAround): Answer {
  const begun = beginningOf(facts);
  if (begun === undefined) {
    const { at, next, oldestAt } = facts;
    return withoutBeginning(next, oldestAt === null || at >= oldestAt);
  }
  const { at, ended, blocked } = facts;
  const untilAt = endMs(facts);
  const grant: HolderAtGrant = {
    ...begun,
    until: untilAt === null ? null : isoOf(untilAt),
    end: endOf(ended, untilAt),
    blocked: blocked === null || blocked.kind === 'renewal_allowed' ? null : actOf(blocked),
  };
  if (untilAt === null || at < untilAt) {
    return { phase: grant.blocked === null ? 'held' : 'expiring', grant };
  }
  // A key that was ended by force is held back until its backend must be gone.
  const isHeldBack = face === 'key' && at < stopsBy(ended);
  return { phase: isHeldBack ? 'expiring' : 'free', grant };
}

/** The grant that began last before the moment, by its row while it is the newest, or else by its event. */
function beginningOf({
  newest,
  begun,
}: FactsAround): Omit<HolderAtGrant, 'until' | 'end' | 'blocked'> | undefined {
  if (newest !== null) {
    const { leaseId, fencingToken, holder, action, comment, mode, grantedAt } = newest;
    return { leaseId, fencingToken, holder, action, comment, mode, since: isoOf(grantedAt) };
  }
  if (begun === null) return undefined;
  const { leaseId, fencingToken, at, detail } = begun;
  return {
    leaseId,
    fencingToken,
    since: isoOf(at),
    holder: textIn(detail, 'holder'),
    action: textIn(detail, 'action'),
    comment: textIn(detail, 'comment'),
    mode: modeIn(detail),
  };
}

/** When that grant ended; an end that was not recorded was before the next grant. */
function endMs({ newest, ended, next }: FactsAround): number | null {
  if (ended !== null) return ended.at;
  if (newest?.isOver === true) return newest.expiresAt;
  return next !== null && isBeginning(next) ? next.at : null;
}

/** No beginning is kept: what happened next may show that somebody held it. */
function withoutBeginning(next: FactAt | null, isKept: boolean): Answer {
  if (next === null || isBeginning(next)) {
    return { phase: isKept ? 'free' : 'unknown', grant: null };
  }
  const isEnd = ENDS.includes(next.kind) || isForced(next);
  return {
    phase: 'held',
    grant: {
      leaseId: next.leaseId,
      fencingToken: ownToken(next),
      holder: null,
      action: null,
      comment: null,
      mode: null,
      since: null,
      blocked: null,
      until: isEnd ? isoOf(next.at) : null,
      end: isEnd ? endOf(next, next.at) : null,
    },
  };
}

function isBeginning({ kind }: FactAt): boolean {
  return kind === 'granted' || kind === 'taken_over';
}

/** A revocation by force raises the token by one, and its event has the raised one. */
function ownToken({ kind, fencingToken, detail }: FactAt): string {
  return isForced({ kind, detail }) ? String(BigInt(fencingToken) - 1n) : fencingToken;
}

function isForced({ kind, detail }: Pick<FactAt, 'kind' | 'detail'>): boolean {
  return kind === 'revoked' && textIn(detail, 'mode') === 'force';
}

function endOf(ended: FactAt | null, untilAt: number | null): HolderAtGrant['end'] {
  if (ended !== null) return { kind: ended.kind, ...actOf(ended) };
  return untilAt === null
    ? null
    : { kind: 'expired', at: isoOf(untilAt), actor: 'leasehold', reason: null };
}

function actOf({ at, actor, reason }: FactAt): {
  at: string;
  actor: string;
  reason: string | null;
} {
  return { at: isoOf(at), actor, reason };
}

function stopsBy(ended: FactAt | null): number {
  const text = textIn(ended?.detail, 'stopsBy');
  const isAbandoned = fieldIn(ended?.detail, 'abandon') === true;
  return text === null || isAbandoned ? Number.NEGATIVE_INFINITY : Date.parse(text);
}

function textIn(detail: unknown, name: string): string | null {
  const value = fieldIn(detail, name);
  return typeof value === 'string' ? value : null;
}

function modeIn(detail: unknown): SlotMode | null {
  const name = fieldIn(detail, 'mode');
  return SLOT_MODES.find((mode) => mode === name) ?? null;
}

function fieldIn(detail: unknown, name: string): unknown {
  return typeof detail === 'object' && detail !== null
    ? (detail as Record<string, unknown>)[name]
    : undefined;
}
