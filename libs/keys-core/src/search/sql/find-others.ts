/** Drones, people and tokens by any part of their names: few enough to look at each of them. */
import { foldedOf } from '../../lists/index.ts';
import { C, type Fragment, fragment, type Sql } from '../../postgres/sql.ts';
import { droneStatus } from '../../fleet/index.ts';
import { MATCHES } from '../../kernel/found-kinds.ts';
import type { FoundView } from '../search-types.ts';

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
    ...{ kind, namespace: '', datacenter, match: MATCHES[rank] ?? 'substring' },
    ...row,
  }));
}
