import { droneStatus } from '../../fleet/index.ts';
import { type FoundKind, type Match, MATCHES } from '../../kernel/face-types.ts';
import { parseResourceText, resourceText } from '../../kernel/resource.ts';
import {
  containsText,
  foldedOf,
  hasPieces,
  IS_ALL_SEEN,
  LOOK_MATCHES_MIN,
  NEW_NAMES,
  PHASE_CONDITIONS,
  SOME_NAMES,
  withinLimits,
  withinNamespace,
} from '../../lists/index.ts';
import {
  C,
  type Fragment,
  fragment,
  grantRows,
  IS_IN_FORCE,
  joinFragments,
  SCOPE_NAME,
  type Sql,
} from '../../postgres/sql.ts';

/** What found it, where that is not its name. */
export type FoundBy = 'lease_id' | 'ticket' | 'token' | 'holder' | 'backend_id' | 'address';

/** What was found: enough to tell it from others, and to open it. */
export interface FoundView {
  readonly kind: FoundKind;
  /** As it is printed: `boards.eu/q4-roadmap`, an id, an e-mail address, the name of a token. */
  readonly text: string;
  /** Of a resource, or of a backend's key; empty for the others. */
  readonly namespace: string;
  /** Of a resource or a token; the id of a drone or a backend; a person's name. */
  readonly name: string;
  /** Of the newest grant, the drone, the backend, the person or the token. */
  readonly id: string;
  /** Its phase or status. */
  readonly state: string;
  /** Whether it is in use: held, connected or in force. */
  readonly isLive: boolean;
  /** Who holds it, the backend's key, or the role; null for what has none. */
  readonly detail: string | null;
  readonly match: Match;
  /** Left out for what was found by its name. */
  readonly by?: FoundBy;
  readonly datacenter: string;
}

type NameKind = 'key' | 'lease' | 'environment' | 'backend';

export interface NamesAsked {
  readonly text: string;
  readonly kinds: readonly NameKind[];
  readonly namespaces: readonly string[] | null;
  readonly datacenter: string;
  readonly limit: number;
}

interface NameRow {
  /** Null in the one row of an answer that has found nothing. */
  readonly kind: NameKind | null;
  readonly isCut: boolean;
  readonly namespace: string;
  readonly name: string;
  readonly rank: number;
  readonly id: string;
  readonly state: string;
  readonly isLive: boolean;
  readonly detail: string;
  readonly keyName: string | null;
}

/** The best matches by name, of which those in use are put first. */
const CANDIDATES_MAX = 500;
/** Names that begin with the text, shortest first. */
const BEGINNINGS_MAX = 200;
/** How many are read for those of the kinds that are asked for. */
const BEGINNINGS_READ_MAX = 10_000;
/** What a limited caller's look reads of each of its namespaces. */
const LIMITED_NAMES_MAX = 8_192;
/** What is rare has some 15,000 matches in a million; many more mean that the look was misled. */
const INDEXED_MAX = 50_000;
/** How many names of some kinds are read for a text that many names of the other kinds contain. */
const OF_KINDS_MAX = 50_000;
const COLUMNS = fragment`n.kind, n.namespace, n.name, n.text, n.name_at`;
/** Written so that the index of trigrams is used, and not the primary key. */
const HIDDEN_NAMESPACE = fragment`(n.namespace || '')`;
const HIDDEN_KIND = fragment`(n.kind || '')`;
/** After every character that a name may have. */
const LAST_CHARACTER = '\u{10FFFF}';

/**
 * Keys, leases, environments and backends whose printed name contains a text, best first.
 *
 * Several searches, of which each is bounded whatever is asked: names that begin with the text, by length
 * (`search_name_begin_idx`); a look at some names for what many contain; the index of trigrams for what
 * few contain (`search_name_grams_idx`), asked only if the look has found few of any kind; the first names of the kinds
 * that are asked for, by the primary key, if only others have the text often; the newest grants, which are
 * not in the table of names yet; and the very name, by its primary key. Of a text that very many names contain, only
 * some are ranked. One row at least, without a kind when nothing was found. Locks nothing.
 * @returns also whether names of these kinds were left out that may be among the few with this text.
 */
export async function findNames(
  sql: Sql<'reads'>,
  asked: NamesAsked,
): Promise<{ items: FoundView[]; isCut: boolean }> {
  const { text, namespaces, limit } = asked;
  const kinds = [...asked.kinds];
  const isOfKinds = fragment`n.kind = any(${kinds}::text[])`;
  const isAsked = fragment`${isOfKinds} and ${withinLimits(namespaces, fragment`n.namespace`)}`;
  const contains = fragment`strpos(n.text, ${foldedOf(text)}) > 0`;
  const isAllSeen =
    namespaces === null
      ? IS_ALL_SEEN
      : fragment`((select count(*) from seen) < ${LIMITED_NAMES_MAX}::int)`;
  const wantedCount = Math.max(LOOK_MATCHES_MIN, limit);
  const isFew = (which: Fragment): Fragment =>
    fragment`((select count(*) from look n where ${which}) < ${wantedCount}::int)`;
  const isWordLike = fragment`n.rank < 3`;
  // The index has all kinds, and answers slowly what is frequent in any of them.
  const isRare = isFew(fragment`true`);
  const isRareWord = isFew(isWordLike);
  const isOnlyOfOthers = fragment`(not ${isAllSeen} and (
    (not ${isRare} and ${isFew(isOfKinds)})
    or (not ${isRareWord} and ${isFew(fragment`${isOfKinds} and ${isWordLike}`)})
  ))`;
  const indexed = (where: 'anywhere' | 'word', isNeeded: Fragment): Fragment =>
    indexedNames(asked, where, fragment`not ${isAllSeen} and ${isNeeded} and ${contains}`);
  const rows = await sql.$queryRaw<NameRow[]>`
    with seen as materialized (${namespaces === null ? fragment`select ${COLUMNS} from ${SOME_NAMES}` : firstNames(namespaces, kinds, LIMITED_NAMES_MAX)}),
    look as materialized (
      select ${COLUMNS}, ${rankOf(text)} as rank from seen n where ${contains}
    ),
    of_kinds as materialized (
      select ${COLUMNS} from (${firstNames(namespaces ?? [''], kinds, OF_KINDS_MAX)}) n where ${isOnlyOfOthers}
    ),
    -- Cut before duplicates are left out: a name is found in two or three ways at most.
    best as materialized (
      select ${COLUMNS}, n.rank
      from (
        select * from look n where ${isAsked}
        union all (${namespaces === null ? beginningWith(text, kinds) : fragment`select * from look where false`})
        union all (${indexed('word', fragment`not ${isRare} and ${isRareWord}`)})
        union all (${indexed('anywhere', isRare)})
        union all
        select ${COLUMNS}, ${rankOf(text)} from of_kinds n where ${contains}
        union all
        select ${COLUMNS}, ${rankOf(text)} from (${freshNames(text)}) n where ${isAsked}
      ) n
      order by n.rank, char_length(n.text), n.text
      limit ${CANDIDATES_MAX}
    )
    select c.is_cut as "isCut", f.*
    from (select (select count(*) from of_kinds) >= ${OF_KINDS_MAX}::int as is_cut) c
    left join (
      select f.kind, f.namespace, f.name, f.text, f.rank, s.*
      from (select distinct on (n.kind, n.namespace, n.name) n.* from best n) f
      cross join lateral (${leaseState(asked.datacenter)} union all ${BACKEND_STATE}) s
    ) f on true
    order by f.rank, f."isLive" desc, char_length(f.text), f.text, f.kind
    limit ${limit}`;
  return {
    items: rows.flatMap(({ kind, ...row }) =>
      kind === null ? [] : [viewOf({ kind, ...row }, asked.datacenter)],
    ),
    isCut: rows[0]?.isCut === true,
  };
}

/** What the index of trigrams finds, of all kinds at once, if `isNeeded`. */
function indexedNames(
  { text, kinds, namespaces }: NamesAsked,
  where: 'anywhere' | 'word',
  isNeeded: Fragment,
): Fragment {
  return fragment`
    select ${COLUMNS}, ${rankOf(text)} as rank
    from (
      select ${COLUMNS}
      from search_name n
      where ${isNeeded} and ${hasPieces(text, where)}
        and ${HIDDEN_KIND} = any(${[...kinds]}::text[])
        and ${withinLimits(namespaces, HIDDEN_NAMESPACE)}
      limit ${INDEXED_MAX}
    ) n`;
}

function rankOf(text: string): Fragment {
  const folded = foldedOf(text);
  const name = fragment`substr(n.text, n.name_at)`;
  return fragment`
    case
      when n.text = ${folded} ${C} or ${name} = ${folded} ${C} then 0
      when starts_with(${name}, ${folded}) then 1
      when ${isWord(text)} then 2
      else 3
    end`;
}

function isWord(text: string): Fragment {
  return fragment`strpos(search_words(n.text), search_words(${foldedOf(text)})) > 0`;
}

/** The first names of each namespace, children included, and kind: where there are few, all are found. */
function firstNames(
  namespaces: readonly string[],
  kinds: readonly string[],
  max: number,
): Fragment {
  const parts = namespaces.flatMap((namespace) =>
    kinds.map(
      (kind) => fragment`(
        select ${COLUMNS} from search_name n
        where n.kind = ${kind} ${C} and ${withinNamespace(namespace, fragment`n.namespace`)}
        order by n.namespace, n.name
        limit ${max})`,
    ),
  );
  if (parts.length === 0) return fragment`select ${COLUMNS} from search_name n where false`;
  return fragment`
    select ${COLUMNS} from (${joinFragments(parts, ' union all ')}) n limit ${max}`;
}

/** Shortest first, then in their order: one probe of the index for each length. It has all kinds. */
function beginningWith(text: string, kinds: readonly string[]): Fragment {
  const folded = foldedOf(text);
  return fragment`
    select ${COLUMNS}, ${rankOf(text)}
    from (
      select ${COLUMNS}
      from generate_series(
        char_length(${folded}),
        (select max(char_length(n.text) - n.name_at) + 1 from search_name n)
      ) as size
      cross join lateral (
        select ${COLUMNS}
        from search_name n
        where char_length(n.text) - n.name_at = size - 1
          and substr(n.text, n.name_at) >= ${folded} ${C}
          and substr(n.text, n.name_at) < ${folded} || ${LAST_CHARACTER}::text ${C}
        order by substr(n.text, n.name_at)
        limit ${BEGINNINGS_READ_MAX}
      ) n
      limit ${BEGINNINGS_READ_MAX}
    ) n
    where n.kind = any(${[...kinds]}::text[])
    limit ${BEGINNINGS_MAX}`;
}

/** Names that may not be in the table of names yet. */
function freshNames(text: string): Fragment {
  const { namespace, name } = parseResourceText(text);
  return fragment`
    select v.face as kind, v.namespace, v.name, t.text,
      (char_length(t.text) - char_length(search_folded(v.name)) + 1)::smallint as name_at
    from (
      select v.face, v.namespace, v.name
      from ${NEW_NAMES}
      where ${containsText(text, fragment`v.namespace`, fragment`v.name`)}
      union all
      select l.face, l.namespace, l.name
      from lease l
      where l.face in ('key', 'lease', 'environment')
        and l.namespace = ${namespace} ${C} and l.name = ${name} ${C}
    ) v
    cross join lateral (select search_text(v.namespace, v.name) ${C} as text) t
    union all
    select 'backend', b.namespace, b.id, search_folded(b.id) ${C}, 1::smallint
    from backend b
    where b.id = ${text} ${C}`;
}

/** The resource of a name, unless it is gone or lives elsewhere. Index: the primary key. */
function leaseState(datacenter: string): Fragment {
  return fragment`
    select l.lease_id::text as id, l.holder as detail, null as "keyName",
      case
        when ${PHASE_CONDITIONS.held} then 'held'
        when ${PHASE_CONDITIONS.expiring} then 'expiring'
        when ${PHASE_CONDITIONS.expired} then 'expired'
        else 'free'
      end as state,
      ${PHASE_CONDITIONS.held} or ${PHASE_CONDITIONS.expiring} as "isLive"
    from (${stateRow(fragment`f.kind`, fragment`f`)}) l
    where (l.face <> 'key' or l.home_reservation is null
      or starts_with(l.home_reservation, ${`${datacenter}.`} ${C}))`;
}

/**
 * The row that shows the state of what a row `of` names: that of one who holds it, where several may at once, or else
 * the one with the name.
 */
function stateRow(face: Fragment, of: Fragment): Fragment {
  const [namespace, name] = [fragment`${of}.namespace`, fragment`${of}.name`];
  const slots = grantRows({ face, namespace, name }, { where: IS_IN_FORCE, limit: 1 });
  return fragment`
      select l.*
      from (
        select o.* from lease o
        where o.face = ${face} and o.namespace = ${namespace} and o.name = ${name}
        union all
        select s.* from lease o cross join lateral (${slots}) s
        where o.face = ${face} and o.namespace = ${namespace} and o.name = ${name}
          and o.pool is not null
      ) l
      order by l.pool is not distinct from l.name
      limit 1`;
}

/** The backend of an id, unless it is gone. Index: the primary key. */
const BACKEND_STATE = fragment`
  select b.id, b.drone_id, b.name, b.status, b.status <> 'terminated'
  from backend b
  where f.kind = 'backend' and b.id = f.name`;

function viewOf(row: NameRow & { readonly kind: NameKind }, datacenter: string): FoundView {
  const { kind, namespace, name, id, state, keyName, isLive } = row;
  const detail = keyName === null ? row.detail : resourceText({ namespace, name: keyName });
  return {
    kind,
    namespace,
    name,
    id,
    state,
    detail,
    isLive,
    datacenter,
    text: kind === 'backend' ? id : resourceText({ namespace, name }),
    match: MATCHES[row.rank] ?? 'substring',
  };
}

// What is found by an id in a text, and not by a part of its name.

interface IdsAsked {
  readonly ids: IdsInText;
  readonly kinds: readonly FoundKind[];
  readonly namespaces: readonly string[] | null;
  readonly datacenter: string;
  readonly limit: number;
}

interface FoundRow {
  readonly kind: FoundKind;
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
  readonly state: string;
  readonly isLive: boolean;
  readonly detail: string;
  readonly keyName: string | null;
  readonly by: FoundBy;
}

/**
 * Keys, leases, environments and backends by what a line of a log says of them: the id of a grant, also of one that has
 * ended, as long as its events are kept; the ticket of a caller that waits; the fencing token or the holder of the newest
 * grant; the id or the address of a backend.
 *
 * Indexes: `lease_lease_id_key`, `lease_event_lease_id_idx`, `lease_waiter_ticket_id_key`, `lease_pkey`, the primary key of
 * backends. Tokens, holders and addresses have no index: a text with one of them reads the table once. Locks nothing.
 */
export async function findIds(sql: Sql<'reads'>, asked: IdsAsked): Promise<FoundView[]> {
  const { ids, namespaces, datacenter, limit } = asked;
  const { uuids, tokens, addresses, backendIds, holders } = ids;
  if ([uuids, tokens, addresses, backendIds, holders].every((some) => some.length === 0)) return [];
  const kinds = [...asked.kinds];
  const isOfRow = fragment`l.face = any(${kinds}::text[]) and ${withinLimits(namespaces, fragment`l.namespace`)}
    and (l.face <> 'key' or l.home_reservation is null
      or starts_with(l.home_reservation, ${`${datacenter}.`} ${C}))`;
  const rows = await sql.$queryRaw<FoundRow[]>`
    with named as (
      select e.face, e.namespace, e.name, 'lease_id' as by
      from lease_event e
      where e.lease_id = any(${uuids}::uuid[])
      union
      select w.face, w.namespace, w.name, 'ticket'
      from lease_waiter w
      where w.ticket_id = any(${uuids}::uuid[])
    ),
    rows as (
      select l.*, 'lease_id' as by from lease l where l.lease_id = any(${uuids}::uuid[])
      union all
      select l.*, n.by from named n
      cross join lateral (${stateRow(fragment`n.face`, fragment`n`)}) l
      union all
      -- The row with the name of what several may hold at once has the token of the newest grant, too.
      select l.*, 'token' from lease l
      where ${tokens.length > 0}::boolean and l.fencing_token = any(${tokens}::bigint[])
        and l.pool is distinct from l.name
      union all
      (
        select l.*, 'holder' from lease l
        where ${holders.length > 0}::boolean and l.holder = any(${holders}::text[])
          and (${PHASE_CONDITIONS.held} or ${PHASE_CONDITIONS.expiring})
          -- Before the limit: what a reader may not see must not take the place of what it may.
          and ${isOfRow}
        limit ${limit}
      )
    )
    select l.face as kind, l.namespace, ${SCOPE_NAME}, l.lease_id::text as id, l.holder as detail,
      null as "keyName", l.by,
      case
        when ${PHASE_CONDITIONS.held} then 'held'
        when ${PHASE_CONDITIONS.expiring} then 'expiring'
        when ${PHASE_CONDITIONS.expired} then 'expired'
        else 'free'
      end as state,
      ${PHASE_CONDITIONS.held} or ${PHASE_CONDITIONS.expiring} as "isLive"
    from rows l
    where ${isOfRow}
    union all
    select 'backend', b.namespace, b.id, b.id, b.drone_id, b.name,
      case when b.id = any(${backendIds}::text[]) then 'backend_id' else 'address' end,
      b.status, b.status <> 'terminated'
    from backend b
    where 'backend' = any(${kinds}::text[]) and ${withinLimits(namespaces, fragment`b.namespace`)}
      and b.id in (
        select i.id from unnest(${backendIds}::text[]) as i (id)
        union
        select a.id from backend a
        where ${addresses.length > 0}::boolean and a.status_rank < 7
          and a.address = any(${addresses}::text[])
      )
    limit ${limit}`;
  return rows.map((row) => idView(row, datacenter));
}

function idView(row: FoundRow, datacenter: string): FoundView {
  const { kind, namespace, name, id, state, isLive, keyName, by } = row;
  const isBackend = kind === 'backend';
  return {
    kind,
    namespace,
    name,
    id,
    state,
    isLive,
    datacenter,
    by,
    detail: keyName === null ? row.detail : resourceText({ namespace, name: keyName }),
    text: isBackend ? id : resourceText({ namespace, name }),
    match: 'exact',
  };
}

// Drones, people and tokens by any part of their names: few enough to look at each of them.

interface OtherRow {
  readonly text: string;
  readonly name: string;
  readonly id: string;
  readonly state: string;
  readonly isLive: boolean;
  readonly detail: string | null;
  readonly rank: number;
}

interface OthersAsked {
  readonly text: string;
  readonly datacenter: string;
  readonly limit: number;
}

/** What is asked of one kind: its rows, whose `names` are searched each by itself. */
interface Others {
  readonly kind: 'drone' | 'person' | 'token';
  readonly rows: Fragment;
}

/** Drones by id. Those are some thousands at most. */
export function findDrones(
  sql: Sql<'reads'>,
  asked: OthersAsked,
  heartbeatMs: number,
): Promise<FoundView[]> {
  return findOthers(sql, asked, {
    kind: 'drone',
    rows: fragment`
      select d.id as text, d.id as name, d.id, array[d.id] as names, null as detail,
        ${droneStatus(heartbeatMs, fragment`clock_timestamp()`)} as state,
        d.lost_at is null as "isLive"
      from drone d`,
  });
}

/** People by e-mail address or name. */
export function findPeople(sql: Sql<'reads'>, asked: OthersAsked): Promise<FoundView[]> {
  return findOthers(sql, asked, {
    kind: 'person',
    rows: fragment`
      select p.email as text, p.name, p.id::text as id, array[p.email, p.name] as names,
        p.role as detail,
        case
          when p.disabled_at is not null then 'disabled'
          when p.joined_at is null then 'invited'
          else 'active'
        end as state,
        p.disabled_at is null as "isLive"
      from person p`,
  });
}

/** Tokens by name or id: never by their secrets, which are not stored. */
export function findTokens(sql: Sql<'reads'>, asked: OthersAsked): Promise<FoundView[]> {
  return findOthers(sql, asked, {
    kind: 'token',
    rows: fragment`
      select t.name as text, t.name, t.id::text as id, array[t.name, t.id::text] as names,
        t.role as detail,
        case
          when t.revoked_at is not null then 'revoked'
          when t.expires_at <= clock_timestamp() then 'expired'
          else 'valid'
        end as state,
        t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp()) as "isLive"
      from api_token t`,
  });
}

/** No row means that nothing was found. Locks nothing. Index: none, see the top. */
async function findOthers(
  sql: Sql<'reads'>,
  { text, datacenter, limit }: OthersAsked,
  { kind, rows }: Others,
): Promise<FoundView[]> {
  const folded = foldedOf(text);
  const found = await sql.$queryRaw<OtherRow[]>`
    select o.text, o.name, o.id, o.state, o."isLive", o.detail, m.rank
    from (${rows}) o
    cross join lateral (
      select min(case
        when n.folded = ${folded} ${C} then 0
        when starts_with(n.folded, ${folded}) then 1
        when strpos(search_words(n.folded), search_words(${folded})) > 0 then 2
        when strpos(n.folded, ${folded}) > 0 then 3
      end) as rank
      from (select search_folded(u.name) ${C} as folded from unnest(o.names) as u (name)) n
    ) m
    where m.rank is not null
    order by m.rank, o."isLive" desc, char_length(o.text), o.text ${C}, o.id
    limit ${limit}`;
  return found.map(({ rank, ...row }) => ({
    kind,
    namespace: '',
    datacenter,
    match: MATCHES[rank] ?? 'substring',
    ...row,
  }));
}

// What a text names by itself, wherever it stands in it: a line of a log has ids between other words.

interface IdsInText {
  /** Of grants, or of tickets of callers that wait. */
  readonly uuids: string[];
  /** Fencing tokens. */
  readonly tokens: string[];
  readonly addresses: string[];
  readonly backendIds: string[];
  /** As services name themselves: `payments@host-7:4242`. */
  readonly holders: string[];
}

/** Of each kind; a line of a log has fewer. */
const IDS_MAX = 5;

const UUID = /(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])/giu;
/** They begin at the milliseconds of 1970, so all are long; a time of a log with its offset is not one. */
const TOKEN = /(?<![\w.-])\d{10,19}(?![\w.-])/gu;
const ADDRESS =
  /(?<![\w.:@-])(?:\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?):\d{2,5}(?![\w.:])/giu;
const BACKEND = /(?<![\w-])bk-[a-z0-9]+(?![\w-])/gu;
const HOLDER = /(?<=^|[\s"'`=(,[{])[^\s"'`=(),[\]{}]+@[^\s"'`=(),[\]{}]+/gu;

export function idsInText(text: string): IdsInText {
  return {
    uuids: found(text, UUID).map((uuid) => uuid.toLowerCase()),
    tokens: found(text, TOKEN).filter((token) => BigInt(token) <= TOKEN_MAX),
    addresses: found(text, ADDRESS),
    backendIds: found(text, BACKEND),
    holders: found(text, HOLDER),
  };
}

/** The largest number that the database has for one. */
const TOKEN_MAX = 2n ** 63n - 1n;

function found(text: string, what: RegExp): string[] {
  return [...new Set(text.match(what))].slice(0, IDS_MAX);
}
